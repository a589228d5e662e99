// Objects with descriptors that a copy of the process (fork without exec) must not keep: they would stay open
// in it after the process has died, and others would not detect the death.
#pragma once

#include <pthread.h>

#include <mutex>
#include <vector>

namespace dlaunch::internal {

// All objects of one class; a copy calls close_in_child() of each. Never destroyed: a process may fork while
// it ends.
template <class T>
struct CloseOnFork {
  std::mutex mutex;  // while it is held the process cannot fork
  std::vector<T*> all;

  static CloseOnFork& get() {
    static CloseOnFork& one = *new CloseOnFork;
    [[maybe_unused]] static const int registered = pthread_atfork(before_fork, after_fork, in_copy);
    return one;
  }

 private:
  // No other thread holds the mutex in the copy.
  static void before_fork() { get().mutex.lock(); }
  static void after_fork() { get().mutex.unlock(); }
  static void in_copy() {
    for (T* const one : get().all) one->close_in_child();
    get().all.clear();
    get().mutex.unlock();
  }
};

}  // namespace dlaunch::internal
