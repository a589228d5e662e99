// Why a group has ended, for all threads that wait in it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

namespace dlaunch::internal {

class GroupEnd {
 public:
  [[nodiscard]] bool is_set() const { return is_set_; }

  // The first reason counts.
  void set(std::exception_ptr reason) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_set_.exchange(true)) return;
    reason_ = std::move(reason);
  }

  void throw_if_set() {
    if (!is_set_) return;
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(reason_);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> is_set_ = false;  // written with mutex_ held
  std::exception_ptr reason_;         // protected by mutex_
};

}  // namespace dlaunch::internal
