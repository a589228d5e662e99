// One log file: appended to, turned over when it is large, and never a reason for a job to stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "agent/output/dropped.h"

namespace dlaunch::agent {

class LogFile {
 public:
  using Warn = std::function<void(const std::string& sentence)>;

  // Opens `path` anew. Over `max_bytes` (0: no limit) it becomes path.1, that one path.2 and so on, of which
  // `keep` are kept. Turned over between lines: the line that does not fit any more may make a file larger,
  // up to twice as large; a longer one is cut. What cannot be opened or written (a full disk) is said once
  // through `warn`, and again when writing works again. `is_private`: for this user alone to read, else for
  // whom the umask lets.
  LogFile(std::string path, std::uint64_t max_bytes, int keep, Warn warn, bool is_private = false);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void write(std::string_view bytes);

  // What could not be written.
  [[nodiscard]] const Dropped& lost() const { return lost_; }

 private:
  // How many of the bytes belong into the file as it is.
  [[nodiscard]] std::size_t fitting(std::string_view bytes) const;
  void open();
  void turn_over();
  void append(std::string_view bytes);
  void failed(const std::string& doing, int why);

  const std::string path_;
  const std::uint64_t max_bytes_;
  const int keep_;
  const Warn warn_;
  const bool is_private_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  bool between_lines_ = true;
  bool failing_ = false;
  Dropped lost_;
};

}  // namespace dlaunch::agent
