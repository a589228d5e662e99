// Waits until a file may have changed. By inotify, which tells at once what happens on this machine; changes
// made on other machines, through a network file system, it does not see, so there the file is to be looked
// at every now and then. Not thread-safe.
#pragma once

#include <string>
#include <utility>

#include "store/base/time.h"

namespace dlaunch {

class FileWatch {
 public:
  explicit FileWatch(std::string path);  // starts watching where it can
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Returns at the deadline, when the file was changed, replaced or removed since the last call, when it is
  // time to look again, or for no reason.
  void await(TimePoint deadline);

 private:
  bool start();
  void take_events();

  const std::string path_;
  int inotify_ = -1;        // none: the user has too many already
  bool watching_ = false;   // inotify tells of the file
  bool only_here_ = false;  // and of every change, since the file system is this machine's own
};

}  // namespace dlaunch
