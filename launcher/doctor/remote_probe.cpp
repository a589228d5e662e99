#include "launcher/doctor/remote_probe.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <utility>

#include "launcher/doctor/link_text.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

// The end of a process is looked for so often: its pipes may have other holders (a shared connection of ssh).
constexpr Duration between_looks = std::chrono::milliseconds(100);
constexpr std::size_t longest_line = 64ULL << 10U;
constexpr std::size_t most_lines = 16;

}  // namespace

RemoteProbe::~RemoteProbe() {
  end_input();
  for (const int fd : process_.outputs) {
    if (fd >= 0) close(fd);
  }
  if (process_.pid <= 0) return;
  kill(-process_.pid, SIGKILL);
  while (waitpid(process_.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<void> RemoteProbe::start(const std::vector<std::string>& command, const std::string& script) {
  auto started = run_with_pipes(command);
  if (!started) return std::move(started).error();
  process_ = *started;
  send(script);  // if nobody reads it, the process's end has the reason
  return {};
}

bool RemoteProbe::send(const std::string& line) {
  // The pipe holds much more than one order, and the probe has read the one before.
  return process_.input >= 0 &&
         write(process_.input, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

void RemoteProbe::end_input() {
  if (process_.input >= 0) close(process_.input);
  process_.input = -1;
}

std::optional<std::string> RemoteProbe::take_line() {
  if (lines_.empty()) return std::nullopt;
  std::string line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

void RemoteProbe::keep_lines(const std::string& text) {
  partial_ += text;
  for (std::size_t end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n')) {
    if (partial_.starts_with(probe_mark) && lines_.size() < most_lines)
      lines_.push_back(partial_.substr(probe_mark.size(), end - probe_mark.size()));
    partial_.erase(0, end + 1);
  }
  if (partial_.size() > longest_line) partial_.clear();
}

// False: there is nothing to read now.
bool RemoteProbe::read_from(Stream stream) {
  int& fd = process_.outputs.at(static_cast<std::size_t>(stream));
  if (fd < 0) return false;
  char piece[16 * 1024];
  const ssize_t got = read(fd, piece, sizeof piece);
  if (got < 0) return errno == EINTR;
  if (got == 0) {
    close(fd);
    fd = -1;
    return false;
  }
  const std::string text(piece, static_cast<std::size_t>(got));
  if (stream == Stream::out) {
    keep_lines(text);
  } else {
    tail_.add(text);
  }
  return true;
}

void RemoteProbe::look() {
  int status = 0;
  const bool has_ended = process_.pid > 0 && waitpid(process_.pid, &status, WNOHANG) == process_.pid;
  for (const Stream stream : {Stream::out, Stream::err}) {
    while (read_from(stream)) {
    }
  }
  if (!has_ended) return;
  process_.pid = 0;
  ended_ = agent::ExitStatus::from_wait_status(status);
}

void RemoteProbe::await(const std::vector<RemoteProbe*>& probes, TimePoint deadline,
                        const std::function<bool(const RemoteProbe&)>& done) {
  while (true) {
    std::vector<pollfd> all;
    for (RemoteProbe* const one : probes) {
      one->look();
      for (const int fd : one->process_.outputs) {
        if (fd >= 0) all.push_back({fd, POLLIN, 0});
      }
    }
    if (std::all_of(probes.begin(), probes.end(), [&](const RemoteProbe* one) { return done(*one); })) return;
    const Duration left = deadline - steady_now();
    if (left <= Duration::zero()) return;
    poll(all.data(), all.size(), static_cast<int>(to_millis(std::min(left, between_looks))) + 1);
  }
}

void RemoteProbe::await_lines(const std::vector<RemoteProbe*>& probes, TimePoint deadline) {
  await(probes, deadline, [](const RemoteProbe& one) { return !one.lines_.empty() || one.ended_; });
}

void RemoteProbe::await_ends(const std::vector<RemoteProbe*>& probes, TimePoint deadline) {
  await(probes, deadline, [](const RemoteProbe& one) { return one.ended_.has_value(); });
}

}  // namespace dlaunch::launcher
