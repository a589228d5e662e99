// Objects with descriptors that a copy of the process (fork without exec) must not keep: there they would
// stay open after the process has died, and those who look for its end would not see it.
#pragma once

#include <pthread.h>

#include <mutex>
#include <vector>

namespace dlaunch {

// All of one class there are; in a copy each has close_in_child() called. Never destroyed: a process may be
// copied while it ends.
template <class T>
struct CloseOnFork {
  std::mutex mutex;  // who holds it keeps the process from being copied
  std::vector<T*> all;

  static CloseOnFork& get() {
    static CloseOnFork& one = *new CloseOnFork;
    [[maybe_unused]] static const int registered = pthread_atfork(before_fork, after_fork, in_copy);
    return one;
  }

 private:
  // Nobody else holds the mutex in the copy.
  static void before_fork() { get().mutex.lock(); }
  static void after_fork() { get().mutex.unlock(); }
  static void in_copy() {
    for (T* const one : get().all) one->close_in_child();
    get().all.clear();
    get().mutex.unlock();
  }
};

}  // namespace dlaunch
