// The part of a node's process that lives while the job does: the spawner, the endpoints that this node
// serves, the election and the Runner. NodeProcess destroys it before it closes the output.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "agent/election/etcd_election.h"
#include "agent/node/runner.h"
#include "agent/observe/postmortem.h"
#include "agent/observe/timer_watch.h"
#include "agent/observe/worker_pages.h"
#include "agent/output/output.h"
#include "agent/platform/status_socket.h"
#include "agent/process/keeper_spawner.h"
#include "agent/process/leader_mark.h"
#include "agent/process/pmi_sockets.h"
#include "launcher/node/containment.h"
#include "launcher/node/inspector.h"
#include "launcher/node/node_output.h"
#include "launcher/node/rank_watch.h"
#include "launcher/node/serve.h"
#include "launcher/options/options.h"
#include "launcher/options/plan.h"
#include "launcher/report/report.h"
#include "launcher/report/torchelastic_events.h"
#include "store/base/result.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"
#include "store/server/secure_network.h"
#include "store/server/server.h"
#include "store/server/status_page.h"

namespace dlaunch::launcher {

// The Runner is made after its port is open, and before the loop runs and agents connect.
class DeferredAcceptor final : public AgentAcceptor {
 public:
  agent::Runner* runner = nullptr;
  ConnectionHandler& on_agent_connection(ConnId conn, const Address& peer) override {
    return runner->on_agent_connection(conn, peer);
  }
  bool end_unauthenticated(TimePoint came_before) override {
    return runner != nullptr && runner->end_unauthenticated(came_before);
  }
};

// Not thread-safe. The methods are called in this order, each once; on_signal() at any time between
// make_runner() and close().
class NodeAgent {
 public:
  // Not owned; all outlive this.
  struct Dependencies {
    const Options& options;
    const EnvironmentMap& environment;
    JobPlan& plan;  // open_endpoints() fills in the ports and addresses that it left open
    OutputFiles& files;
    UvLoop& loop;
    UvPoller& poller;
    agent::Output& output;
    agent::Postmortem& postmortem;
    agent::Reporter& reporter;
  };

  NodeAgent(Dependencies dependencies, agent::Keeper keeper);

  // After this the agent answers at its endpoint; nothing has been started.
  Result<void> open_endpoints();
  // How the endpoint is reached, for the log; empty: nothing to report.
  [[nodiscard]] std::string open_port_notice() const;
  // After this on_signal() may be called.
  void make_runner();
  // Opens the status socket, starts keeper, guard and workers. After an error, what spawner().resources()
  // names is left.
  Result<void> start(const agent::TimerFifo& timer_fifo);
  void on_signal(int signo) { runner_->on_signal(signo); }

  // Announces the end to the other nodes and closes the endpoints. REQUIRES: the loop has stopped.
  void close();
  [[nodiscard]] const std::optional<agent::Outcome>& outcome() const { return runner_->outcome(); }
  [[nodiscard]] const agent::World& world() const { return runner_->world(); }
  // Where the time of this node's ranks went until now; none: nothing was started.
  [[nodiscard]] std::optional<agent::JobTimes> times();
  // Where PyTorch's flight records of this node are, after close(); empty: there are none.
  [[nodiscard]] std::string flight_folder() const { return inspector_ ? inspector_->folder() : ""; }
  [[nodiscard]] agent::KeeperSpawner& spawner() { return spawner_; }

 private:
  [[nodiscard]] ServerOptions server_options();
  [[nodiscard]] agent::Runner::Config runner_config();
  [[nodiscard]] agent::WorkerUsage worker_usage(std::span<const agent::WorkerHere> workers) const;
  void write_event(const agent::Event& event, const EventFacts& facts);
  void show_world();
  void make_election();
  void make_inspector();
  void make_leader_mark();
  void shorten_straggler_window();
  void keep_leader_mark();
  void end_leader_mark();
  [[nodiscard]] std::string status_json() const;
  void watch_ranks();
  [[nodiscard]] agent::WorldView world_view() const;
  void watch_timers(const agent::TimerFifo& fifo);

  Dependencies dependencies_;
  // Each member uses those above it.
  agent::PmiSockets pmi_sockets_;
  agent::KeeperSpawner spawner_;
  DeferredAcceptor acceptor_;
  SecureNetwork network_;
  StatusPage page_;
  StoreServer server_;
  HealthEndpoint health_;
  Served served_;
  agent::WorkerPages pages_;
  std::optional<agent::LeaderMark> leader_mark_;  // of a job whose nodes have leases, if this one may lead
  std::optional<agent::EtcdElection> election_;
  std::optional<agent::Runner> runner_;
  std::optional<Inspector> inspector_;
  std::optional<agent::StatusSocket> status_socket_;
  std::optional<agent::TimerWatch> timers_;
  std::optional<RankWatch> ranks_;
};

}  // namespace dlaunch::launcher
