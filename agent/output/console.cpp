#include "agent/output/console.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace dlaunch::agent {

Console::Console(int fd) : is_stdout_(fd == STDOUT_FILENO), fd_(fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    broken_ = true;  // the process that started this one has closed it
  } else if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
    own_fd_ =
        open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (own_fd_ >= 0) fd_ = own_fd_;
    is_terminal_ = isatty(fd_) != 0;
    const bool may_block = S_ISFIFO(info.st_mode) || is_terminal_;
    blocks_ = may_block && own_fd_ < 0;
    polled_ = may_block && own_fd_ >= 0;
    if (blocks_ && is_terminal_) begin_relay();
  } else if (S_ISSOCK(info.st_mode)) {
    is_socket_ = true;
    polled_ = true;
  }
}

Console::~Console() {
  if (own_fd_ >= 0) close(own_fd_);
}

void Console::write(std::string_view first, std::string_view second) {
  if (broken_) return;
  if (given_up_) return write_or_drop(first, second);
  // Usually nothing is queued: then the bytes are written from where they are, without a copy.
  const std::size_t done = queue_.empty() ? write_now(first, second) : 0;
  if (broken_) return;
  if (done < first.size()) {
    queue_.append(first.substr(done)).append(second);
  } else {
    queue_.append(second.substr(done - first.size()));
  }
}

void Console::push() {
  std::size_t done = 0;
  while (done < queue_.size() && !broken_) {
    const std::size_t now = write_now(std::string_view(queue_).substr(done), {});
    if (now == 0) break;
    done += now;
  }
  queue_.erase(0, broken_ ? queue_.size() : done);
}

// Output after a gap begins on a new line.
void Console::write_or_drop(std::string_view first, std::string_view second) {
  if (relay_) {  // the relay gives up, too
    dropped_.add(first);
    dropped_.add(second);
    return;
  }
  const std::size_t added = within_line_ ? 1 : 0;
  std::string text(added, '\n');
  text.append(first).append(second);
  const std::size_t done = write_now(text, {});
  if (!broken_) dropped_.add(std::string_view(text).substr(std::max(done, added)));
}

bool Console::has_moved() {
  // A pipe has room again only after a whole page of it has been read.
  const int before = std::exchange(unread_, unread());
  const std::uint64_t relayed_before = std::exchange(relayed_, relay_ ? relay_->bytes() : 0);
  return std::exchange(moved_, false) || unread_ < before || relayed_ > relayed_before;
}

// Bytes that have been written and not yet read; 0 if this is not known.
int Console::unread() const {
  int count = 0;
  const unsigned long request = is_socket_ ? SIOCOUTQ : is_terminal_ && !relay_ ? TIOCOUTQ : FIONREAD;
  return polled_ && ioctl(fd_, request, &count) == 0 ? count : 0;
}

void Console::give_up() {
  given_up_ = true;
  if (relay_) {
    relay_->give_up();
    const std::uint64_t bytes = relay_->bytes();
    const bool within_line = within_line_ && handed_over_.bytes > bytes;
    dropped_.add({handed_over_.bytes - bytes, handed_over_.lines - relay_->lines() + (within_line ? 1 : 0),
                  within_line});
    handed_over_.bytes = bytes;
  }
  dropped_.add(queue_);
  queue_.clear();
}

bool Console::is_full() {
  full_ = queue_.size() > (full_ ? low_water : high_water);
  return full_;
}

std::string Console::loss() const {
  if (lost_by_ == 0) return "";
  return std::string("cannot write to ") + (is_stdout_ ? "standard output" : "standard error") + ": " +
         std::strerror(lost_by_) + "; further output to it is lost";
}

void Console::note_written(std::string_view first, std::string_view second, std::size_t size) {
  if (size == 0) return;
  moved_ = !relay_;
  if (relay_) {
    const std::string_view both[] = {first.substr(0, size),
                                     second.substr(0, size - std::min(size, first.size()))};
    handed_over_.bytes += size;
    for (const std::string_view text : both)
      handed_over_.lines += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  }
  within_line_ = (size <= first.size() ? first[size - 1] : second[size - first.size() - 1]) != '\n';
}

// If no thread can be made, writes block.
void Console::begin_relay() {
  blocks_ = false;
  relay_ = Relay::start(fd_);
  if (!relay_) return;
  fd_ = relay_->fd();
  polled_ = true;
}

// A writable pipe accepts this much without blocking.
std::size_t Console::write_pieces(std::string_view text) {
  std::size_t done = 0;
  while (blocks_ && done < text.size()) {
    pollfd ready{fd_, POLLOUT, 0};
    if (poll(&ready, 1, 0) == 0) {
      begin_relay();
      return done + write_now(text.substr(done), {});
    }
    const std::string_view piece = text.substr(done, PIPE_BUF);
    const ssize_t wrote = ::write(fd_, piece.data(), piece.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      broken_ = true;
      queue_.clear();
      break;
    }
    note_written(piece, {}, static_cast<std::size_t>(wrote));
    done += static_cast<std::size_t>(wrote);
  }
  return done;
}

// Tries once; returns how many bytes were written.
std::size_t Console::write_now(std::string_view first, std::string_view second) {
  std::array<iovec, 2> parts = {
      {{const_cast<char*>(first.data()), first.size()}, {const_cast<char*>(second.data()), second.size()}}};
  if (first.empty() && second.empty()) return 0;
  if (blocks_) return write_pieces(std::string(first).append(second));
  while (true) {
    ssize_t wrote = 0;
    if (is_socket_) {
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = parts.size();
      wrote = sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
      wrote = writev(fd_, parts.data(), static_cast<int>(parts.size()));
    }
    if (wrote >= 0) {
      note_written(first, second, static_cast<std::size_t>(wrote));
      return static_cast<std::size_t>(wrote);
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return 0;
    // The reader has closed it (dlaunch ... | head) or the disk is full: the job continues without this
    // output.
    broken_ = true;
    if (!polled_ && errno != EPIPE) lost_by_ = errno;
    queue_.clear();
    return 0;
  }
}

}  // namespace dlaunch::agent
