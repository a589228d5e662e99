// The threads of this process.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

#include "runtime/base/deadline.h"

namespace dlaunch::test {

using namespace internal;

inline std::size_t thread_count() {
  // ThreadSanitizer has a thread of its own, from the program's first one on.
  [[maybe_unused]] static const bool has_begun = (std::thread([] {}).join(), true);
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                                std::filesystem::directory_iterator()));
}

// Waits until there are no more than these; whether it came to that in a minute.
inline bool threads_end(std::size_t remaining) {
  const Deadline limit = deadline_after(std::chrono::seconds(60));
  while (thread_count() > remaining) {
    if (has_passed(limit)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace dlaunch::test
