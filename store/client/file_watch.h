// Waits until a file may have changed. inotify reports at once what happens on this machine. It does not see
// changes that other machines make through a network file system; such files are read now and then. Not
// thread-safe.
#pragma once

#include <string>
#include <utility>

#include "store/base/time.h"

namespace dlaunch::store {

class FileWatch {
 public:
  explicit FileWatch(std::string path);  // starts watching if possible
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Returns at the deadline, when the file was changed, replaced or removed since the last call, when it is
  // time to look again, or spuriously.
  void await(TimePoint deadline);

 private:
  bool start();
  void take_events();

  const std::string path_;
  int inotify_ = -1;        // none: the user has too many already
  bool watching_ = false;   // inotify reports changes of the file
  bool only_here_ = false;  // it reports all changes, since the file system is local
};

}  // namespace dlaunch::store
