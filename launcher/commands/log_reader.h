// Reads one log file of a worker from its beginning, through everything that is still kept of it: FILE.2,
// FILE.1, FILE. It may still grow, be turned over, or not be there yet.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "store/base/lines.h"

namespace dlaunch::launcher {

class LogReader {
 public:
  // Takes whole lines, each behind the prefix.
  using Sink = std::function<void(const std::string& lines)>;

  LogReader(std::string path, std::string prefix, Sink sink);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Gives on what has come since the last call, in whole lines.
  void read_new_lines();
  // Nothing more will come: a line without an end is one.
  void finish();

 private:
  void read_on();
  void give(std::string_view beginning, std::string_view rest);

  const std::string path_;
  const std::string prefix_;
  const Sink sink_;
  agent::LineSplitter lines_;
  int fd_ = -1;  // open all the time, so that no other file is given its inode
  ino_t inode_ = 0;
};

}  // namespace dlaunch::launcher
