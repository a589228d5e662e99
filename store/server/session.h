// One connection's side of the protocol: bytes in, requests out. Pure.
//
// Finds out which dialect the peer speaks from its first bytes, which may come one at a time, and never
// insists on any: a peer that stays silent is as good as another (1.13 keeps a second connection that never
// says a word). Holds only the bytes of a request that is not yet whole, and of requests that its owner has
// not yet asked for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "store/protocol/limits.h"
#include "store/protocol/wire.h"

namespace dlaunch {

// What to take a peer without a greeting for.
enum class OldClients : std::uint8_t {
  guess,  // by what it sends; 1.13's WATCH_KEY is then not understood
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
    more,             // nothing whole is left
    silence_decides,  // as `more`; but if nothing comes for a while, call silence() and ask again
    bad,              // the peer speaks no dialect of ours; why() says what was wrong. Nothing follows.
  };
  Next next(Request& request);

  // The peer has sent nothing since `silence_decides`: it waits for an answer.
  void silence();

  // Copies what feed() brought and next() has not used.
  void keep_rest();

  [[nodiscard]] std::string_view why() const { return why_; }
  // The memory of what has come of requests that are not whole.
  [[nodiscard]] std::size_t buffered() const { return buffer_.empty() ? 0 : buffer_.capacity(); }
  [[nodiscard]] std::optional<Dialect> dialect() const { return dialect_; }

 private:
  bool greet();
  void make_room(std::size_t more);

  const StoreLimits& limits_;
  const OldClients old_clients_;
  std::optional<Dialect> dialect_;  // none: not enough has come
  std::string buffer_;
  ByteSpan unread_;         // points into what was fed, or into buffer_
  std::size_t needed_ = 1;  // before so many bytes are there, trying to decode is in vain
  std::string_view why_;
};

}  // namespace dlaunch
