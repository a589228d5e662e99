// Starts a thread of the runtime, with an error that names the limit if the system refuses it.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "dlaunch/error.h"
#include "store/base/task_limits.h"

namespace dlaunch::internal {

// Throws DistBackendError if no thread can be started.
template <class F>
std::thread start_thread(F&& run) {
  try {
    return std::thread(std::forward<F>(run));
  } catch (const std::system_error& e) {
    const bool is_limit = e.code() == std::errc::resource_unavailable_try_again;
    throw DistBackendError(std::string("cannot start a thread: ") + (is_limit ? why_no_task() : e.what()));
  }
}

}  // namespace dlaunch::internal
