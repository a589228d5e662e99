#include "store/client/file_watch.h"

#include <linux/magic.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include "store/client/steady_time.h"

namespace dlaunch::store {
namespace {

constexpr Duration poll_interval = std::chrono::milliseconds(10);  // as often as PyTorch's
// For local files, where inotify reports all. Looking again keeps a mistake in dlaunch from becoming a hang.
constexpr Duration safety_poll_interval = std::chrono::seconds(1);
constexpr std::uint32_t xfs_magic = 0x58465342;  // not in linux/magic.h

// File systems that certainly belong to one machine. Others, also overlays, may get writes that inotify does
// not report.
bool belongs_to_one_machine(const std::string& path) {
  struct statfs system {};
  if (statfs(path.c_str(), &system) != 0) return false;
  const auto type = static_cast<std::uint32_t>(system.f_type);
  constexpr std::array<std::uint32_t, 4> local = {EXT4_SUPER_MAGIC, TMPFS_MAGIC, BTRFS_SUPER_MAGIC,
                                                  xfs_magic};
  return std::find(local.begin(), local.end(), type) != local.end();
}

}  // namespace

FileWatch::FileWatch(std::string path)
    : path_(std::move(path)), inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  start();
}

FileWatch::~FileWatch() {
  if (inotify_ >= 0) ::close(inotify_);
}

void FileWatch::await(TimePoint deadline) {
  if (!watching_ && start()) return;  // earlier changes must be looked at
  const TimePoint now = steady_now();
  const Duration pause = watching_ && only_here_ ? safety_poll_interval : poll_interval;
  const Duration left = std::clamp(deadline - now, Duration::zero(), pause);
  const timespec time{.tv_sec = left / std::chrono::seconds(1),
                      .tv_nsec = (left % std::chrono::seconds(1)).count()};
  pollfd events{inotify_, POLLIN, 0};  // poll ignores a descriptor of -1
  if (ppoll(&events, 1, &time, nullptr) > 0) take_events();
}

bool FileWatch::start() {
  if (inotify_ < 0) return false;
  watching_ = inotify_add_watch(inotify_, path_.c_str(), IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF) >= 0;
  only_here_ = watching_ && belongs_to_one_machine(path_);
  return watching_;
}

void FileWatch::take_events() {
  alignas(inotify_event) std::array<char, 4096> buffer;
  while (true) {
    const ssize_t size = ::read(inotify_, buffer.data(), buffer.size());
    if (size <= 0) return;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      if ((event.mask & (IN_IGNORED | IN_MOVE_SELF)) != 0) watching_ = false;  // another file now
      at += sizeof event + event.len;
    }
  }
}

}  // namespace dlaunch::store
