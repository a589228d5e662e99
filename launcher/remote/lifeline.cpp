#include "launcher/remote/lifeline.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dlaunch::launcher {

int take_standard_input() {
  const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) {
    dup2(nothing, STDIN_FILENO);
    close(nothing);
  }
  return fd;
}

Lifeline::Lifeline(UvPoller& poller, Clock& clock, Timers& timers, int fd, Calls calls)
    : poller_(poller), clock_(clock), timers_(timers), fd_(fd), calls_(std::move(calls)) {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  poller_.watch(fd_, true, false, *this);
  expect_more();
}

Lifeline::~Lifeline() {
  timers_.disarm(silence_);
  poller_.unwatch(fd_);
  close(fd_);
}

void Lifeline::on_readable(int) {
  char bytes[512];
  const ssize_t got = read(fd_, bytes, sizeof bytes);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0)
    return report_loss(got == 0 ? "it has ended, or the connection was cut" : std::strerror(errno));
  expect_more();
  for (const int signo : reader_.take(std::string_view(bytes, static_cast<std::size_t>(got))))
    calls_.signal(signo);
}

void Lifeline::on_writable(int) {}

void Lifeline::on_timer(TimerId) {
  silence_ = {};
  report_loss("it was silent for " + to_words(silence_limit));
}

void Lifeline::look() {
  pollfd input{fd_, POLLIN, 0};
  if (!lost_ && poll(&input, 1, 0) > 0) on_readable(fd_);
  if (!lost_ && clock_.now() >= silent_at_) on_timer(silence_);
}

void Lifeline::report_loss(const std::string& why) {
  lost_ = true;
  timers_.disarm(silence_);
  poller_.unwatch(fd_);
  calls_.lost(why);
}

void Lifeline::expect_more() {
  timers_.disarm(silence_);
  silent_at_ = clock_.now() + silence_limit;
  silence_ = timers_.arm(silent_at_, *this);
}

void send_ready(const LifelineTerms& terms, const std::string& version) {
  const std::string line = to_line(terms.key, {AgentMessage::Kind::ready, version});
  // A line fits into an empty pipe. If it cannot be written, the other side detects that it is missing.
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
    [[maybe_unused]] const ssize_t wrote = write(fd, line.data(), line.size());
}

}  // namespace dlaunch::launcher
