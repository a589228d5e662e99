// The answering end of a measured connection. Pure.
//
// A connection begins with the key of the host's probe. Then come requests: the number of bytes that follow
// (u64) and these bytes, which are dropped. When all have come, the answer is this host's wall clock (i64,
// nanoseconds since 1970).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlaunch::launcher {

class ProbeSession {
 public:
  static constexpr std::uint64_t longest_request = 1ULL << 30U;
  static constexpr std::size_t answer_size = sizeof(std::int64_t);

  // REQUIRES: the key is not empty.
  explicit ProbeSession(std::string key) : key_(std::move(key)) {}

  // Returns the answers to the requests that these bytes complete. Nothing more after a bad byte.
  std::string take(std::string_view bytes, std::int64_t now_unix_ns);

  // The other end has no key, or asks for too much: the connection must be closed.
  [[nodiscard]] bool is_bad() const { return bad_; }

 private:
  const std::string key_;
  std::string head_;  // of the key or of a request, not whole yet
  std::uint64_t to_drop_ = 0;
  bool has_key_ = false;
  bool in_request_ = false;
  bool bad_ = false;
};

// The head of a request of `size` bytes.
std::string request_head(std::uint64_t size);

}  // namespace dlaunch::launcher
