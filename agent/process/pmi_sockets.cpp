#include "agent/process/pmi_sockets.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace dlaunch::agent {

PmiSockets::~PmiSockets() {
  while (!by_key_.empty()) close(ProcKey(by_key_.begin()->first));
}

int PmiSockets::open(ProcKey key) {
  while (!by_key_.empty() && by_key_.begin()->first.round != key.round)
    close(ProcKey(by_key_.begin()->first));
  close(key);
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return -1;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);  // only our end: MPI programs expect to wait
  by_key_[key] = ends[0];
  by_fd_[ends[0]] = key;
  poller_.watch(ends[0], true, false, *this);
  return ends[1];
}

void PmiSockets::send(ProcKey key, std::string_view bytes) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const ssize_t sent = ::send(found->second, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size())) close(key);
}

void PmiSockets::close(ProcKey key) {
  const auto found = by_key_.extract(key);
  if (!found) return;
  by_fd_.erase(found.mapped());
  poller_.unwatch(found.mapped());
  ::close(found.mapped());
}

void PmiSockets::on_readable(int fd) {
  const auto found = by_fd_.find(fd);
  if (found != by_fd_.end()) read(fd, found->second);
}

void PmiSockets::read(int fd, ProcKey key) {
  std::array<char, 16 * 1024> chunk;
  const ssize_t got = recv(fd, chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    close(key);
    if (handler_ != nullptr) handler_->on_pmi_closed(key);
    return;
  }
  if (handler_ != nullptr) handler_->on_pmi_bytes(key, {chunk.data(), static_cast<std::size_t>(got)});
}

// The handler may close the connection.
void PmiSockets::take_now(ProcKey key) {
  for (auto found = by_key_.find(key); found != by_key_.end(); found = by_key_.find(key)) {
    pollfd there{found->second, POLLIN, 0};
    if (poll(&there, 1, 0) <= 0) return;
    read(found->second, key);
  }
}

std::string PmiSockets::start_pmix(ProcKey key) {
  const int theirs = open(key);  // closes that of an earlier round, whose process ends with it
  if (theirs < 0) return std::strerror(errno);
  pmix_.end();
  std::string why = pmix_.start(pmix_program_, theirs);
  ::close(theirs);
  if (!why.empty()) close(key);
  return why;
}

}  // namespace dlaunch::agent
