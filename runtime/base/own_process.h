// Whether this is still the process in which an object was made. A copy made by fork() has the object, but
// not its threads; its mutexes may be held by one of those threads, and its connections belong to the
// original.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "dlaunch/error.h"

namespace dlaunch::internal {

// Costs a load: the process counts the forks that lead to it. Any thread.
class OwnProcess {
 public:
  OwnProcess() : forks_(counted()) {}

  [[nodiscard]] bool is_this() const { return forks_ == forks.load(std::memory_order_relaxed); }

 private:
  static std::uint32_t counted() {
    [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
    return forks.load(std::memory_order_relaxed);
  }

  static inline constinit std::atomic<std::uint32_t> forks = 0;

  std::uint32_t forks_;
};

inline constexpr const char* forked_copy =
    "this process was forked from the one that joined the group and has none of its threads and "
    "connections: make the call in that process, or let this one join a group of its own";

}  // namespace dlaunch::internal
