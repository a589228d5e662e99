// The runtime's clock. The public calls convert timeouts to deadlines once: an operation with many waits then
// ends in time, however the time is spent among them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "dlaunch/backend.h"
#include "store/base/time.h"

namespace dlaunch::internal {

// Stands for "no limit": long enough for any job, short enough that no clock arithmetic overflows.
inline constexpr std::chrono::milliseconds longest_timeout = std::chrono::hours(24 * 365);

// A limit for a call: its start and length.
struct Timeout {
  Deadline began;
  std::chrono::milliseconds length;

  [[nodiscard]] Deadline deadline() const {
    return began + std::clamp(length, std::chrono::milliseconds(0), longest_timeout);
  }
};

inline Timeout timeout_from_now(std::chrono::milliseconds length) {
  return {std::chrono::steady_clock::now(), length};
}
inline Deadline deadline_after(std::chrono::milliseconds timeout) {
  return timeout_from_now(timeout).deadline();
}

// Nanoseconds of the steady clock, which all processes of a host share.
inline std::int64_t ns_of(Deadline moment) {
  return std::chrono::nanoseconds(moment.time_since_epoch()).count();
}
inline std::int64_t steady_ns() { return ns_of(std::chrono::steady_clock::now()); }

// Rounded up, so that a wait of this length does not end before the deadline; 0 when it has passed.
inline std::chrono::milliseconds time_left(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::clamp(left, std::chrono::milliseconds(0), longest_timeout);
}

inline bool has_passed(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

inline constexpr const char* no_timeout_at_all = "the timeout must be longer than 0 ms";
inline bool is_timeout(std::chrono::milliseconds length) { return length > std::chrono::milliseconds(0); }

inline std::string in_words(std::chrono::milliseconds length) {
  return to_words(std::chrono::duration_cast<Duration>(length));
}

}  // namespace dlaunch::internal
