#include "agent/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace dlaunch::agent {
namespace {

constexpr std::size_t high_water = 1U << 20;
constexpr std::size_t low_water = 256U * 1024;
constexpr std::size_t read_size = 64U * 1024;

// The last line that has something in it.
std::string_view last_line_of(std::string_view text) {
  const std::size_t end = text.find_last_not_of("\r\n \t");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  return text.substr(text.find_last_of("\r\n") + 1);
}

}  // namespace

// Where forwarded bytes go. A regular file is written at once; a pipe, socket or terminal without ever
// blocking, and without making the descriptor that we share with others non-blocking: through a description
// of our own.
class Output::Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {
    struct stat info {};
    if (fstat(fd, &info) != 0) {
      broken_ = true;  // closed by whoever started us
    } else if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
      own_fd_ =
          open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
      if (own_fd_ >= 0) fd_ = own_fd_;
      polled_ = own_fd_ >= 0 && (S_ISFIFO(info.st_mode) || isatty(own_fd_) != 0);
    } else if (S_ISSOCK(info.st_mode)) {
      is_socket_ = true;
      polled_ = true;
    }
  }
  ~Sink() {
    if (own_fd_ >= 0) close(own_fd_);
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void add(std::string_view bytes) {
    if (!broken_) queue_.append(bytes);
  }

  // Writes what goes without waiting.
  void push() {
    std::size_t done = 0;
    while (done < queue_.size() && !broken_) {
      const char* at = queue_.data() + done;
      const std::size_t size = queue_.size() - done;
      const ssize_t wrote =
          is_socket_ ? send(fd_, at, size, MSG_DONTWAIT | MSG_NOSIGNAL) : write(fd_, at, size);
      if (wrote > 0) {
        done += static_cast<std::size_t>(wrote);
      } else if (wrote < 0 && errno == EINTR) {
        continue;
      } else if (wrote < 0 && errno == EAGAIN) {
        break;
      } else {
        // The reader has gone (dlaunch ... | head) or the disk is full: the job goes on without this output.
        broken_ = true;
      }
    }
    queue_.erase(0, broken_ ? queue_.size() : done);
  }

  void push_all() {
    push();
    while (!queue_.empty()) {
      pollfd waiting{fd_, POLLOUT, 0};
      if (poll(&waiting, 1, -1) < 0 && errno != EINTR) return;
      push();
    }
  }

  [[nodiscard]] std::size_t size() const { return queue_.size(); }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool wants_writing() const { return polled_ && !queue_.empty(); }

 private:
  int fd_;
  int own_fd_ = -1;
  bool polled_ = false;
  bool is_socket_ = false;
  bool broken_ = false;
  std::string queue_;
};

Output::Output(UvEdge& edge, bool whole_lines)
    : edge_(edge),
      whole_lines_(whole_lines),
      out_(std::make_unique<Sink>(STDOUT_FILENO)),
      err_(std::make_unique<Sink>(STDERR_FILENO)) {}

Output::~Output() {
  for (auto& [fd, source] : sources_) {
    edge_.unwatch(fd);
    close(fd);
  }
  edge_.unwatch(out_->fd());
  edge_.unwatch(err_->fd());
}

void Output::add(ProcKey key, Stream stream, int fd) {
  sources_[fd] = Source{key, stream, {}, {}};
  if (!paused_) edge_.watch(fd, true, false, *this);
}

std::string Output::drain(ProcKey key) {
  std::vector<int> fds;
  std::string tail;
  for (auto& [fd, source] : sources_) {
    if (source.key == key) fds.push_back(fd);
  }
  for (int fd : fds) {
    Source& source = sources_.at(fd);
    const bool open = take_in(fd, source, true);
    if (source.stream == Stream::err) tail = source.tail.text();
    if (!open) end(fd);
  }
  if (const auto found = ended_tails_.find(key); found != ended_tails_.end()) {
    tail = std::move(found->second);
    ended_tails_.erase(found);
  }
  pause_or_resume();
  return tail;
}

std::string Output::last_line(ProcKey key) const {
  const auto found = last_lines_.find(key);
  return found == last_lines_.end() ? "" : found->second;
}

void Output::close_all() {
  while (!sources_.empty()) {
    const auto first = sources_.begin();
    take_in(first->first, first->second, true);
    end(first->first);
  }
  ended_tails_.clear();
  last_lines_.clear();
  pause_or_resume();
}

void Output::write_own(std::string_view line) {
  err_->add(line);
  err_->push();
  pause_or_resume();
}

void Output::flush() {
  out_->push_all();
  err_->push_all();
}

void Output::on_readable(int fd) {
  const auto found = sources_.find(fd);
  if (found == sources_.end()) return;
  if (!take_in(fd, found->second, false)) end(fd);
  pause_or_resume();
}

void Output::on_writable(int fd) {
  Sink& sink = fd == out_->fd() ? *out_ : *err_;
  sink.push();
  pause_or_resume();
}

bool Output::take_in(int fd, Source& source, bool all) {
  static char buffer[read_size];  // the loop's thread is the only one
  std::string complete;
  bool open = true;
  do {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      open = got < 0 && errno == EAGAIN;
      break;
    }
    const std::string_view piece(buffer, static_cast<std::size_t>(got));
    if (source.stream == Stream::err) source.tail.add(piece);
    if (whole_lines_) {
      source.lines.add(piece, complete);
    } else {
      complete.append(piece);
    }
  } while (all);
  if (!open) source.lines.finish(complete);
  if (const auto last = last_line_of(complete); !last.empty())
    last_lines_[source.key].assign(last.substr(0, shown_bytes));
  sink(source.stream).add(complete);
  sink(source.stream).push();
  return open;
}

void Output::end(int fd) {
  const auto found = sources_.find(fd);
  if (found->second.stream == Stream::err) ended_tails_[found->second.key] = found->second.tail.text();
  edge_.unwatch(fd);
  close(fd);
  sources_.erase(found);
}

void Output::pause_or_resume() {
  for (Sink* sink : {out_.get(), err_.get()}) {
    if (sink->wants_writing()) {
      edge_.watch(sink->fd(), false, true, *this);
    } else {
      edge_.unwatch(sink->fd());
    }
  }
  const std::size_t waiting = std::max(out_->size(), err_->size());
  const bool pause = paused_ ? waiting > low_water : waiting > high_water;
  if (pause == paused_) return;
  paused_ = pause;
  for (auto& [fd, source] : sources_) {
    if (paused_) {
      edge_.unwatch(fd);
    } else {
      edge_.watch(fd, true, false, *this);
    }
  }
}

Output::Sink& Output::sink(Stream stream) { return stream == Stream::out ? *out_ : *err_; }

}  // namespace dlaunch::agent
