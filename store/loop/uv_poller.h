// File descriptors and signals as events on the loop's thread. Only this file and store/loop/uv_loop.h use
// libuv.
#pragma once

#include <functional>
#include <memory>

#include "store/loop/uv_loop.h"

namespace dlaunch::store {

class FdHandler {
 public:
  virtual ~FdHandler() = default;
  virtual void on_readable(int fd) = 0;
  virtual void on_writable(int fd) = 0;
};

// Not thread-safe. Descriptors are not owned: unwatch before closing one.
class UvPoller {
 public:
  explicit UvPoller(UvLoop& loop);
  ~UvPoller();
  UvPoller(const UvPoller&) = delete;
  UvPoller& operator=(const UvPoller&) = delete;

  // Level-triggered. A second call changes the events; no events: as unwatch. The descriptor must be pollable
  // (pipe, socket, terminal).
  void watch(int fd, bool reading, bool writing, FdHandler& handler);
  void unwatch(int fd);

  // From now on the signal calls `handler` instead of its default action, until this object is destroyed.
  void on_signal(int signo, std::function<void(int)> handler);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlaunch::store
