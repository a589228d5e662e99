// One connection's side of the protocol: bytes in, requests out. Pure.
//
// Detects the peer's dialect from its first bytes, which may come one at a time, and never requires any: a
// silent peer is valid (1.13 keeps a second connection that never sends anything). Holds only the bytes of a
// partial request, and of requests that its owner has not requested yet.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "store/protocol/limits.h"
#include "store/protocol/wire.h"

namespace dlaunch::store {

// What to assume of a peer without a greeting.
enum class OldClients : std::uint8_t {
  guess,  // from its requests; 1.13's WATCH_KEY is then not understood
  v1_13,  // 1.13 and 2.0
  v2_1,
};

class Session {
 public:
  Session(const StoreLimits& limits, OldClients old_clients) : limits_(limits), old_clients_(old_clients) {}

  // Bytes from the peer. They must stay valid until keep_rest().
  void feed(ByteSpan bytes);

  enum class Next {
    request,          // in the argument; its texts are valid until keep_rest()
    more,             // no whole request is left
    silence_decides,  // as `more`; but after a silence, call silence() and try again
    bad,              // the peer's bytes are no dialect; why() returns the reason. Nothing follows.
  };
  Next next(Request& request);

  // The peer has sent nothing since `silence_decides`: it waits for an answer.
  void silence();

  // Copies the bytes of feed() that next() has not used.
  void keep_rest();

  [[nodiscard]] std::string_view why() const { return why_; }
  // The memory of partial requests.
  [[nodiscard]] std::size_t buffered() const { return buffer_.empty() ? 0 : buffer_.capacity(); }
  [[nodiscard]] std::optional<Dialect> dialect() const { return dialect_; }

 private:
  bool greet();
  void make_room(std::size_t more);

  const StoreLimits& limits_;
  const OldClients old_clients_;
  std::optional<Dialect> dialect_;  // none: too few bytes have come
  std::string buffer_;
  ByteSpan unread_;         // points into the bytes of feed(), or into buffer_
  std::size_t needed_ = 1;  // with fewer bytes no decoding can succeed
  std::string_view why_;
};

}  // namespace dlaunch::store
