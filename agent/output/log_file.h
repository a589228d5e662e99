// One log file: it is appended to and rotated when it is large. Its errors never stop the job.
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

  // Truncates and opens `path`. Above `max_bytes` (0: no limit) the file is rotated: it becomes path.1,
  // path.1 becomes path.2 and so on; `keep` of these are kept. Rotation happens at a line boundary: a line
  // that does not fit may make a file up to twice as large; a longer line is cut. If the file cannot be
  // opened or written (a full disk), `warn` is called once, and once more when writing works again.
  // `is_private`: only this user may read it; otherwise the umask decides.
  LogFile(std::string path, std::uint64_t max_bytes, int keep, Warn warn, bool is_private = false);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void write(std::string_view bytes);

  // The output that could not be written.
  [[nodiscard]] const Dropped& lost() const { return lost_; }
  // The error of the last attempt that failed (errno); 0: none did.
  [[nodiscard]] int why_lost() const { return why_lost_; }

 private:
  // How many of the bytes belong into the current file.
  [[nodiscard]] std::size_t fitting(std::string_view bytes) const;
  void open();
  void rotate();
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
  int why_lost_ = 0;
  Dropped lost_;
};

}  // namespace dlaunch::agent
