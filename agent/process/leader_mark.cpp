#include "agent/process/leader_mark.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>

namespace dlaunch::agent {
namespace {

constexpr Duration long_ago = std::chrono::hours(24);

std::string prefix() { return "dlaunch-leader-" + std::to_string(getuid()) + "-"; }

// Two names may become one: then a job waits once without need.
std::string as_file_name(std::string text) {
  constexpr std::size_t longest = 150;
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '_';
  }
  return text.substr(0, longest);
}

// Since the file was refreshed. None: there is none of this user.
std::optional<Duration> age_of(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != getuid())
    return std::nullopt;
  struct timespec now {};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::chrono::seconds(now.tv_sec - found.st_mtim.tv_sec) +
         std::chrono::nanoseconds(now.tv_nsec - found.st_mtim.tv_nsec);
}

void remove_old_marks(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (!dir) return;
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): one thread
    if (!std::string_view(entry->d_name).starts_with(prefix())) continue;
    const std::string path = folder + "/" + entry->d_name;
    if (const auto age = age_of(path); age && *age > long_ago) unlink(path.c_str());
  }
}

}  // namespace

LeaderMark::LeaderMark(Dependencies dependencies, const std::string& folder, const std::string& job,
                       const Address& endpoint, Duration interval)
    : dependencies_(dependencies),
      path_(folder + "/" + prefix() + as_file_name(job + "_" + to_string(endpoint))),
      interval_(interval) {}

LeaderMark::~LeaderMark() { dependencies_.timers.disarm(timer_); }

bool LeaderMark::was_left_within(Duration age) const {
  const auto found = age_of(path_);
  return found && *found < age;
}

Result<void> LeaderMark::keep() {
  if (is_kept_) return {};
  remove_old_marks(path_.substr(0, path_.rfind('/')));
  auto made = refresh();
  is_kept_ = made.ok();
  if (is_kept_) timer_ = dependencies_.timers.arm(dependencies_.clock.now() + interval_, *this);
  return made;
}

// The file is made again if somebody has removed it.
Result<void> LeaderMark::refresh() {
  constexpr mode_t own_only = 0600;
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, own_only);
  const bool is_done = fd >= 0 && futimens(fd, nullptr) == 0;
  const int failure = errno;
  if (fd >= 0) close(fd);
  if (is_done) return {};
  return Error{ErrorKind::io, "cannot make", path_, std::strerror(failure), ""};
}

void LeaderMark::remove() {
  dependencies_.timers.disarm(timer_);
  if (is_kept_ || was_left_within(long_ago)) unlink(path_.c_str());
  is_kept_ = false;
}

void LeaderMark::on_timer(TimerId) {
  (void)refresh();  // without it a successor does not wait: as before there was a file
  timer_ = dependencies_.timers.arm(dependencies_.clock.now() + interval_, *this);
}

}  // namespace dlaunch::agent
