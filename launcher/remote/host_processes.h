// The processes on this machine that lead to hosts: ssh, a shell, a relay. They are addressed by numbers that
// the caller chooses.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/remote/piped_process.h"
#include "launcher/remote/relay_protocol.h"
#include "store/base/result.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

class HostProcesses final : public FdHandler {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_output(ProcessNumber process, Stream stream, std::string_view bytes) = 0;
    // Comes last. `wait_status` as of wait(2).
    virtual void on_gone(ProcessNumber process, int wait_status) = 0;
  };

  // Both must outlive it. Takes SIGCHLD of the poller. Runs on the loop's thread.
  HostProcesses(UvPoller& poller, Owner& owner);
  // Closes all pipes; processes that still run notice it by that.
  ~HostProcesses() override;
  HostProcesses(const HostProcesses&) = delete;
  HostProcesses& operator=(const HostProcesses&) = delete;

  // Runs the command in a session of its own: the caller must forward the terminal's signals. Its three
  // streams are pipes. REQUIRES: no process has this number now.
  Result<void> run(ProcessNumber process, const std::vector<std::string>& command);

  // All calls below do nothing for a process that is gone.

  // Written as fast as the process reads it; the rest is queued.
  void send(ProcessNumber process, std::string_view bytes);
  void end_input(ProcessNumber process);
  void signal(ProcessNumber process, int signo);
  void pause(ProcessNumber process, Stream stream, bool paused);
  // Reads no output at all.
  void hold_all(bool held);

  void on_readable(int fd) override;
  void on_writable(int fd) override;

 private:
  struct Process : PipedProcess {  // -1: a descriptor that is closed
    std::string unsent;
    std::array<bool, 2> paused{};  // by Stream
  };

  Process* find(ProcessNumber process);
  void feed(Process& process);
  void close_input(Process& process);
  void close_output(Process& process, Stream stream);
  void watch_output(const Process& process, Stream stream);
  bool read_some(ProcessNumber number, Process& process, Stream stream);
  void reap();

  UvPoller& poller_;
  Owner& owner_;
  std::map<ProcessNumber, Process> processes_;
  std::map<int, std::pair<ProcessNumber, Stream>> readers_;  // by descriptor
  std::map<int, ProcessNumber> writers_;                     // by descriptor
  bool held_ = false;
};

}  // namespace dlaunch::launcher
