// Sleeping on a word of shared memory, and a processor's way to wait without sleeping.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include "dlaunch/backend.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dlaunch::internal {

inline void processor_pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// How long a rank with a processor of its own looks before it sleeps: longer than a sleep and a wake take.
inline constexpr auto spin_limit = std::chrono::microseconds(50);
inline constexpr int looks_per_clock = 32;

// How often a rank without a processor of its own yields before it sleeps. Each time the others of its
// processor run until they wait, too; a sleep and a wake take longer than several yields.
inline constexpr int yields_before_sleep = 16;

// If a wake is missed all the same.
inline constexpr auto sleep_limit = std::chrono::milliseconds(20);

// A thread looks so long between the announcement that it sleeps and its sleep: by then a store that another
// processor executed before it read the announcement is visible. So the waking side needs no fence, which
// would cost each message as much as the message.
inline constexpr auto looks_before_sleep = std::chrono::microseconds(2);

// Sleeps while the word has that value, until then; may return earlier. Not the private futex: the word is
// shared with other processes.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, Deadline until) {
  const auto left = std::chrono::nanoseconds(until - std::chrono::steady_clock::now());
  if (left.count() <= 0) return;
  const timespec timeout{.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000),
                         .tv_nsec = static_cast<long>(left.count() % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

// Wakes all that sleep.
inline void futex_wake(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace dlaunch::internal
