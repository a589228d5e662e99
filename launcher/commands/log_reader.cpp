#include "launcher/commands/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/output/line_prefix.h"

namespace dlaunch::launcher {

LogReader::LogReader(std::string path, std::string prefix, Sink sink)
    : path_(std::move(path)), prefix_(std::move(prefix)), sink_(std::move(sink)) {}

LogReader::~LogReader() {
  if (fd_ >= 0) close(fd_);
}

void LogReader::read_new_lines() {
  // The newest first: a file that is rotated meanwhile is met again under an older name, so none is missed.
  struct File {
    int fd;
    ino_t inode;
  };
  std::vector<File> newer;
  // While files are rotated one name is missing, since its file has the next name already and the newer one
  // has not taken its place. Two missing names in a row are the end.
  for (int i = 0, missing = 0; missing < 2; ++i) {
    const std::string name = i == 0 ? path_ : path_ + "." + std::to_string(i);
    const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (fd < 0 || fstat(fd, &info) != 0) {
      if (fd >= 0) close(fd);
      ++missing;
      continue;
    }
    missing = 0;
    const bool met_again = std::any_of(newer.begin(), newer.end(),
                                       [&](const File& known) { return known.inode == info.st_ino; });
    const bool own = fd_ >= 0 && info.st_ino == inode_;
    if (own || met_again) {
      close(fd);
    } else {
      newer.push_back({fd, info.st_ino});
    }
    if (own) break;
  }
  read_to_end();
  for (; !newer.empty(); newer.pop_back()) {
    if (fd_ >= 0) close(fd_);
    fd_ = newer.back().fd;
    inode_ = newer.back().inode;
    read_to_end();
  }
}

void LogReader::finish() {
  lines_.finish([this](std::string_view beginning, std::string_view rest) { deliver(beginning, rest); });
}

void LogReader::read_to_end() {
  if (fd_ < 0) return;
  char chunk[1 << 16];
  for (ssize_t got = read(fd_, chunk, sizeof chunk); got > 0; got = read(fd_, chunk, sizeof chunk)) {
    lines_.cut({chunk, static_cast<std::size_t>(got)},
               [this](std::string_view beginning, std::string_view rest) { deliver(beginning, rest); });
  }
}

void LogReader::deliver(std::string_view beginning, std::string_view rest) {
  std::string out;
  agent::add_prefixed(std::string(beginning).append(rest), prefix_, out);
  sink_(out);
}

}  // namespace dlaunch::launcher
