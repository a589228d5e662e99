// What a store server accepts from any client of its port. A request beyond a limit ends its connection: the
// protocol has no other rejection.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "store/base/time.h"

namespace dlaunch::store {

struct StoreLimits {
  std::uint64_t key_bytes = 64 << 10;
  std::uint64_t value_bytes = 1 << 30;                  // also of a value that grew by APPEND
  std::uint64_t keys_per_request = 1 << 20;             // WAIT, CHECK, MULTI_GET, MULTI_SET
  std::uint64_t request_bytes = (1 << 30) + (1 << 20);  // one request, keys and values together
  std::uint64_t answer_bytes = (1 << 30) + (1 << 20);   // one answer: MULTI_GET of one big key many times
  // Keys, values, pending waits, partial requests and unread answers of all connections together, plus
  // `entry_bytes` for each entry, so that small ones count. A value counts once, whatever the number of
  // answers that carry it. Beyond the limit, connections with unread answers end first.
  std::uint64_t total_bytes = std::uint64_t{16} << 30;
  // A connection that reads none of its answers for this long ends: PyTorch's clients wait as long.
  Duration unread_time = std::chrono::minutes(5);
};

// The approximate cost of a table entry beside its bytes.
inline constexpr std::size_t entry_bytes = 128;

}  // namespace dlaunch::store
