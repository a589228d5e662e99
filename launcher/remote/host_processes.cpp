#include "launcher/remote/host_processes.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "launcher/remote/piped_process.h"

namespace dlaunch::launcher {

HostProcesses::HostProcesses(UvPoller& poller, Owner& owner) : poller_(poller), owner_(owner) {
  poller_.on_signal(SIGCHLD, [this](int) { reap(); });
}

HostProcesses::~HostProcesses() {
  poller_.on_signal(SIGCHLD, [](int) {});
  for (auto& [number, process] : processes_) {
    close_input(process);
    for (const Stream stream : {Stream::out, Stream::err}) close_output(process, stream);
  }
}

Result<void> HostProcesses::run(ProcessNumber number, const std::vector<std::string>& command) {
  auto started = run_with_pipes(command);
  if (!started) return std::move(started).error();
  Process& process = processes_[number];
  static_cast<PipedProcess&>(process) = *started;
  writers_[process.input] = number;
  for (const Stream stream : {Stream::out, Stream::err}) {
    readers_[process.outputs.at(static_cast<std::size_t>(stream))] = {number, stream};
    watch_output(process, stream);
  }
  return {};
}

HostProcesses::Process* HostProcesses::find(ProcessNumber number) {
  const auto found = processes_.find(number);
  return found == processes_.end() ? nullptr : &found->second;
}

void HostProcesses::send(ProcessNumber number, std::string_view bytes) {
  Process* const process = find(number);
  if (process == nullptr || process->input < 0) return;
  process->unsent.append(bytes);
  feed(*process);
}

void HostProcesses::feed(Process& process) {
  std::size_t sent = 0;
  while (sent < process.unsent.size()) {
    const ssize_t wrote = write(process.input, process.unsent.data() + sent, process.unsent.size() - sent);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) {
      process.unsent.erase(0, sent);
      return poller_.watch(process.input, false, true, *this);
    }
    if (wrote < 0) break;  // it has ended; SIGCHLD follows
    sent += static_cast<std::size_t>(wrote);
  }
  process.unsent.clear();
  poller_.unwatch(process.input);
}

void HostProcesses::end_input(ProcessNumber number) {
  if (Process* const process = find(number)) close_input(*process);
}

void HostProcesses::signal(ProcessNumber number, int signo) {
  if (const Process* const process = find(number)) kill(process->pid, signo);
}

void HostProcesses::pause(ProcessNumber number, Stream stream, bool paused) {
  Process* const process = find(number);
  if (process == nullptr) return;
  process->paused.at(static_cast<std::size_t>(stream)) = paused;
  watch_output(*process, stream);
}

void HostProcesses::hold_all(bool held) {
  if (held_ == held) return;
  held_ = held;
  for (const auto& [number, process] : processes_) {
    for (const Stream stream : {Stream::out, Stream::err}) watch_output(process, stream);
  }
}

void HostProcesses::watch_output(const Process& process, Stream stream) {
  const auto at = static_cast<std::size_t>(stream);
  const int fd = process.outputs.at(at);
  if (fd < 0) return;
  if (held_ || process.paused.at(at)) {
    poller_.unwatch(fd);
  } else {
    poller_.watch(fd, true, false, *this);
  }
}

void HostProcesses::close_input(Process& process) {
  if (process.input < 0) return;
  poller_.unwatch(process.input);
  writers_.erase(process.input);
  close(process.input);
  process.input = -1;
  process.unsent.clear();
}

void HostProcesses::close_output(Process& process, Stream stream) {
  int& fd = process.outputs.at(static_cast<std::size_t>(stream));
  if (fd < 0) return;
  poller_.unwatch(fd);
  readers_.erase(fd);
  close(fd);
  fd = -1;
}

void HostProcesses::on_readable(int fd) {
  const auto found = readers_.find(fd);
  if (found == readers_.end()) return;
  const auto [number, stream] = found->second;
  read_some(number, processes_.at(number), stream);
}

void HostProcesses::on_writable(int fd) {
  if (const auto found = writers_.find(fd); found != writers_.end()) feed(processes_.at(found->second));
}

// False: there is nothing more to read now.
bool HostProcesses::read_some(ProcessNumber number, Process& process, Stream stream) {
  static char buffer[64 * 1024];  // the loop's thread is the only one
  const int fd = process.outputs.at(static_cast<std::size_t>(stream));
  if (fd < 0) return false;
  const ssize_t got = read(fd, buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  if (got <= 0) {
    close_output(process, stream);
    return false;
  }
  owner_.on_output(number, stream, std::string_view(buffer, static_cast<std::size_t>(got)));
  return true;
}

void HostProcesses::reap() {
  std::vector<std::pair<ProcessNumber, int>> ended;
  for (auto& [number, process] : processes_) {
    int status = 0;
    if (waitpid(process.pid, &status, WNOHANG) == process.pid) ended.emplace_back(number, status);
  }
  for (const auto& [number, status] : ended) {
    Process& process = processes_.at(number);
    // All its output is in the pipes. Do not wait for other holders of the pipes (a shared ssh connection).
    for (const Stream stream : {Stream::out, Stream::err}) {
      constexpr int most_reads = 64;
      for (int i = 0; i < most_reads && read_some(number, process, stream); ++i) {
      }
      close_output(process, stream);
    }
    close_input(process);
    processes_.erase(number);
    owner_.on_gone(number, status);
  }
}

}  // namespace dlaunch::launcher
