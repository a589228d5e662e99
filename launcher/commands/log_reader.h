// Reads one log file of a worker from its beginning, including the rotated files that still exist: FILE.2,
// FILE.1, FILE. The file may grow, be rotated, or not exist yet.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "store/base/lines.h"

namespace dlaunch::launcher {

class LogReader {
 public:
  // Receives whole lines, each with the prefix.
  using Sink = std::function<void(const std::string& lines)>;

  LogReader(std::string path, std::string prefix, Sink sink);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Passes the lines to the sink that were completed since the last call.
  void read_new_lines();
  // The file is complete: passes on its last line even if it has no end.
  void finish();

 private:
  void read_to_end();
  void deliver(std::string_view beginning, std::string_view rest);

  const std::string path_;
  const std::string prefix_;
  const Sink sink_;
  LineSplitter lines_;
  int fd_ = -1;  // kept open, so that no other file gets its inode number
  ino_t inode_ = 0;
};

}  // namespace dlaunch::launcher
