// The processes of a job's hosts, wherever they run: on this machine, or behind the relay on another host
// (RemoteHost::starter). They are addressed by their node rank.
//
// A host that starts others runs a relay, and its own dlaunch is a process of that relay. If a relay ends, so
// do all processes behind it: the one of its own host is reported first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/exit_status.h"
#include "launcher/remote/host_processes.h"
#include "launcher/remote/relay_protocol.h"
#include "launcher/remote/remote_plan.h"

namespace dlaunch::launcher {

class HostTree final : public HostProcesses::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Of the host's dlaunch, and of what connects to it.
    virtual void on_output(int node, Stream stream, std::string_view bytes) = 0;
    // Lines of the connection to a host that starts others (ssh), which are not its dlaunch's.
    virtual void on_connection_words(int node, std::string_view words) = 0;
    // Comes last.
    virtual void on_gone(int node, const agent::ExitStatus& status) = 0;
    // The process could not be started: the same.
    virtual void on_not_run(int node, const std::string& why) = 0;
  };

  // All must outlive it. It takes SIGCHLD of the poller. Runs on the loop's thread; no call of the owner
  // comes from inside run().
  HostTree(const RemotePlan& plan, UvPoller& poller, Owner& owner);

  // Starts the process for this host; `directly`: from this machine in any case. False: on_not_run() is what
  // would have to follow, for `why`.
  [[nodiscard]] Result<void> run(int node, bool directly);

  // The calls below do nothing for a process that is gone.
  void send(int node, std::string_view bytes);
  void end_input(int node);
  // SIGKILL also kills the connection to a host that may not answer.
  void signal(int node, int signo);
  void pause(int node, Stream stream, bool paused);
  // Relays expect it at least once in silence_limit.
  void keep_relays();

  void on_output(ProcessNumber process, Stream stream, std::string_view bytes) override;
  void on_gone(ProcessNumber process, int wait_status) override;

 private:
  static constexpr int no_node = -1;
  struct Process {
    bool is_there = false;
    int via = no_node;  // the node whose relay runs it
  };
  struct Relay {
    Process process;
    bool is_up = false;
    std::string head;    // of its stdout, before it is up
    std::string unsent;  // frames, before it is up: the shell before it may read ahead
    RelayReader reader;
  };

  [[nodiscard]] ProcessNumber relay_number(int node) const {
    return static_cast<ProcessNumber>(plan_.hosts.size()) + static_cast<ProcessNumber>(node);
  }
  [[nodiscard]] bool is_relay(ProcessNumber process) const { return process >= plan_.hosts.size(); }
  [[nodiscard]] int node_of(ProcessNumber process) const {
    return static_cast<int>(process % plan_.hosts.size());
  }
  Process& process_of(ProcessNumber process);
  Relay& relay(int node) { return relays_[static_cast<std::size_t>(node)]; }

  Result<void> start(ProcessNumber process, int via, const std::vector<std::string>& command,
                     std::string_view input);
  void send_to(ProcessNumber process, std::string_view bytes);
  void tell(int relay_node, const RelayMessage& message);
  void take_from_relay(int node, std::string_view bytes);
  void take(int relay_node, const RelayMessage& message);
  void give_up_relay(int node, const std::string& why);
  void kill_way_to(int relay_node);
  void end_relay(int node, int wait_status);
  void release_relay_if_idle(int node);
  void not_run(ProcessNumber process, const std::string& why);

  const RemotePlan& plan_;
  Owner& owner_;
  HostProcesses here_;
  std::vector<Process> agents_;  // by node: the shell or ssh that leads to its dlaunch
  std::vector<Relay> relays_;    // by node
};

}  // namespace dlaunch::launcher
