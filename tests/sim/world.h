// A simulated world: virtual time, nodes, a network of byte streams and processes, all on one thread and
// drawn from one seed. The real Runner, Coordinator, Member and WorkerGroup run in it unchanged.
//
// Time jumps from event to event. Events of one instant happen in the order they were asked for. Two runs
// with one seed are equal, event for event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/model/spawner.h"
#include "agent/node/runner.h"
#include "store/base/io.h"

namespace dlaunch::sim {

using namespace store;

// By how much fewer jobs are run if everything takes as many times longer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int slowness = 10;
#else
constexpr int slowness = 1;
#endif

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] TimePoint began() const { return TimePoint(std::chrono::hours(1)); }
  void at(TimePoint when, std::function<void()> event);
  // Until no event is left, or virtual time passes `end`. Returns the number of events.
  std::size_t run(TimePoint end);

  // In [least, most].
  std::int64_t draw(std::int64_t least, std::int64_t most);
  bool chance(double probability);
  Duration delay(Duration least, Duration most);

 private:
  struct Event {
    TimePoint when;
    std::uint64_t number;
    std::function<void()> act;
    // The first one is the greatest, as the heap's algorithms want it.
    bool operator<(const Event& other) const {
      return std::pair(other.when, other.number) < std::pair(when, number);
    }
  };
  std::vector<Event> events_;  // a heap
  std::uint64_t next_number_ = 0;
  TimePoint now_ = began();
  std::mt19937_64 random_;
};

// How a simulated worker behaves.
struct Script {
  Duration life = std::chrono::seconds(10);
  int exit_code = 0;
  bool ignores_term = false;
  bool leaves_daemon = false;  // a descendant that lives until it is signalled
  bool cannot_start = false;
  // How long before its end it writes its exception to an error file. Zero: no such file.
  Duration dies_slowly{};
  std::string last_words{};
};

class Node;

// All nodes, and the wires between them. Host "node3" is the node with the index 3.
class Cluster {
 public:
  explicit Cluster(World& world) : world_(world) {}

  World& world() { return world_; }
  Node* find(const std::string& host);
  void enter(Node& node);
  // Bytes between the two are held until the two are joined again, as TCP's are; connection attempts get no
  // answer meanwhile.
  void cut(int one, int other) { cuts_.insert(std::minmax(one, other)); }
  void join_all() { cuts_.clear(); }
  [[nodiscard]] bool is_cut(int one, int other) const { return cuts_.contains(std::minmax(one, other)); }
  // A node's wall clock minus the true time.
  std::function<Duration(int node)> clock_error;
  double swallowed = 0.02;  // of the attempts to connect
  std::string secret{};     // of the job; empty: none

  // The behaviour of this node's worker (by index) in a round; drawn by the scenario.
  std::function<Script(int node, std::uint32_t round, int local_rank)> script;
  // Called by the leading agent when a world is formed.
  std::function<void(agent::AgentId leader, std::uint32_t round)> on_world;
  // Called at each start with the worker's environment, and at each end.
  std::function<void(int node, const agent::ProcKey&, const agent::Command&)> on_spawn;
  std::function<void(int node, const agent::ProcKey&)> on_end;
  // What a node's workers have recorded; unset: nothing.
  std::function<agent::WorkersSeen(int node, std::uint32_t round)> records;
  // Called when a signal is passed on to all workers of a node.
  std::function<void(int node, int signo)> on_signal;
  // Called when a worker fails by itself.
  std::function<void(int node, const agent::ProcKey&)> on_failure;

 private:
  World& world_;
  std::map<std::string, Node*> nodes_;
  std::set<std::pair<int, int>> cuts_;
};

// One machine with its agent: the agent's clock, timers, network and processes.
class Node final : public Clock,
                   public Timers,
                   public Network,
                   public agent::ProcessSpawner,
                   public agent::WorkerRecords,
                   public agent::Reporter {
 public:
  // `serves`: the endpoint on this machine.
  Node(Cluster& cluster, int index, agent::JobSpec job, agent::NodeSpec spec,
       std::optional<std::size_t> serves);
  ~Node() override;

  void start();            // starts the agent, also again after a crash or its end
  void crash();            // the agent is killed: its peers' connections break, its keeper ends its processes
  void vanish();           // power off: the peers get no notice
  void pause();            // the agent is stopped (SIGSTOP); its keeper and workers continue
  void resume();           //
  void signal(int signo);  // to the agent
  void kill_keeper();      // and all its processes; another keeper replaces it

  [[nodiscard]] bool alive() const { return alive_; }
  [[nodiscard]] bool answers() const { return alive_ && runner_ && !exited_; }
  [[nodiscard]] bool on() const { return on_; }
  [[nodiscard]] bool started() const { return runner_ != nullptr; }
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] const std::optional<agent::Outcome>& outcome() const { return runner_->outcome(); }
  [[nodiscard]] const agent::Runner* runner() const { return runner_.get(); }
  [[nodiscard]] std::size_t processes() const { return processes_.size() + daemons_; }
  [[nodiscard]] const std::vector<std::string>& said() const { return said_; }

  TimePoint now() const override;
  TimerId arm(TimePoint at, TimerHandler& handler) override;
  void disarm(TimerId timer) override;
  Result<Listening> listen(const Address& address, ListenerHandler& handler) override;
  void unlisten(ListenerId listener) override;
  ConnId connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) override;
  void hand_over(ConnId conn, ConnectionHandler& handler) override;
  void send(ConnId conn, ByteSpan bytes) override;
  std::size_t unsent(ConnId conn) const override;
  void pause_reading(ConnId conn, bool paused) override;
  void close(ConnId conn) override;
  void set_handler(agent::SpawnerHandler& handler) override { spawner_handler_ = &handler; }
  void spawn(agent::ProcKey key, const agent::Command& command) override;
  void signal_all(int signo) override;
  void kill_all() override;
  std::string give_up() override { return "a process"; }
  void keep_alive(TimePoint until) override;
  void prepare(agent::ProcKey) override {}
  agent::Activity activity(std::uint32_t round, int slots) override;
  agent::ExitRecord exit_record(agent::ProcKey, int) override { return {}; }
  void request_stack(std::uint32_t, std::uint32_t, TimePoint) override {}
  std::vector<agent::GroupProgress> group_progress(std::uint32_t round,
                                                   std::span<const agent::WorkerHere> workers, int world_size,
                                                   TimePoint now) override;
  void keep(const agent::JobStatus&) override {}
  void report(const agent::LogMessage& message) override;

 private:
  // Of a stream; without bytes: its end.
  struct Piece {
    std::string bytes;
    CloseKind end = CloseKind::closed_by_peer;
  };
  struct Conn {
    ConnectionHandler* handler = nullptr;
    std::string peer_host;
    ConnId peer;                // 0 until connected
    TimePoint last_delivery;    // keeps the stream in order
    bool up = true;             // false until on_connected
    std::string early{};        // bytes sent before
    bool is_http = false;       // so its first byte said
    std::deque<Piece> stuck{};  // held by a cut on the way here
  };
  struct Process {
    std::int64_t pid = 0;
    Script script;
    std::optional<TimePoint> failed;
    TimePoint reported;  // that its start was reported
  };

  // Runs later unless this node's agent has died meanwhile, and not while it is paused.
  void later(Duration after, std::function<void()> act);
  // The same for what does not need the agent.
  void dependencies(Duration after, std::function<void()> act);
  // Actions and reports of the keeper: none if it was killed meanwhile.
  void by_keeper(Duration after, std::function<void()> act);
  void when_awake(std::function<void()> act);
  void die(bool silently);
  void end_all();
  Duration wire_delay();
  [[nodiscard]] std::int64_t wall_clock_us() const;
  void exit();
  void cut_connections(CloseKind how);
  ConnId open(ConnectionHandler* handler, const std::string& peer_host);
  void come_up(ConnId conn);
  void identify(ConnId conn, const Piece& piece);
  void deliver(ConnId conn, Piece piece);
  void deliver_stuck(ConnId conn);
  [[nodiscard]] bool held_up(const Conn& conn) const;
  void take(ConnId conn, const Piece& piece);
  void peer_closed(ConnId conn, CloseKind how);
  void lease_over();
  Duration death();
  void end_process(agent::ProcKey key, agent::ExitStatus status);
  void fail(agent::ProcKey key);
  void end_daemons();
  void report_rest();

  Cluster& cluster_;
  agent::JobSpec job_;
  agent::NodeSpec spec_;
  int index_;
  std::optional<std::size_t> serves_;
  bool alive_ = true;
  bool on_ = true;
  bool exited_ = false;
  bool paused_ = false;
  bool has_leader_mark_ = false;                   // on this machine's disk (agent/process/leader_mark.h)
  std::uint64_t life_ = 0;                         // of the agent: how often it was started
  std::vector<std::function<void()>> due_timers_;  // while paused
  std::vector<std::function<void()>> held_;        // while paused: everything else
  TimePoint lease_until_ = TimePoint::max();
  agent::SpawnerHandler* spawner_handler_ = nullptr;
  std::uint32_t next_id_ = 1;
  std::map<TimerId, TimerHandler*> timers_;
  std::map<ConnId, Conn> conns_;
  std::map<agent::ProcKey, Process> processes_;
  std::size_t daemons_ = 0;
  int keeper_ = 0;               // how many were killed
  bool is_keeper_dead_ = false;  // and not replaced yet
  std::int64_t next_pid_ = 1000;
  std::vector<std::string> said_;
  std::unique_ptr<agent::Runner> runner_;  // last: it uses the others until its end
};

}  // namespace dlaunch::sim
