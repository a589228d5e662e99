// An elastic job in the simulated world, and its invariants at every moment.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "store/contract/worker_env.h"
#include "tests/sim/world.h"

namespace dlaunch::sim {

struct Shape {
  int machines = 4;  // that may run an agent of the job
  int min_nodes = 2;
  int nnodes = 4;
  int spares = 0;
  int endpoints = 1;  // on the first machines
  int slots = 1;
  int roles = 1;  // distributed over the machines by the seed
  int max_restarts = 3;
  bool counts_membership = false;
  bool notice = false;   // SIGTERM announces an end to the workers of every second machine, which then fail
  bool replaces = true;  // a lost node may be replaced although the number of nodes is fixed
  std::string health_check{};
  Duration hang_timeout{};
  Duration hang_note{};
  Duration restart_backoff{};
  Duration last_call = std::chrono::seconds(3);
};

class ElasticJob {
 public:
  static constexpr Duration node_timeout = std::chrono::seconds(5);
  static constexpr Duration stop_timeout = std::chrono::seconds(10);
  static constexpr Duration join_timeout = std::chrono::seconds(120);

  ElasticJob(std::uint64_t seed, Shape shape) : shape_(shape), world_(seed), cluster_(world_) {
    agent::JobSpec job;
    job.id = "sim";
    job.nnodes = shape.nnodes;
    job.min_nodes = shape.min_nodes;
    job.spares = shape.spares;
    job.max_restarts = shape.max_restarts;
    job.replaces = shape.replaces;
    job.counts_membership = shape.counts_membership;
    job.join_timeout = join_timeout;
    job.stop_timeout.usual = stop_timeout;
    job.last_call = shape.last_call;
    job.node_timeout = node_timeout;
    job.hang_timeout = shape.hang_timeout;
    job.hang_note = shape.hang_note;
    job.policy.first_delay = shape.restart_backoff;
    for (int i = 0; i < shape.endpoints; ++i) job.endpoints.push_back({"node" + std::to_string(i), 29400});
    job.master = job.endpoints.front();
    for (int i = 0; i < shape.machines; ++i) {
      agent::NodeSpec node;
      node.node_rank = -1;
      node.slots = shape.slots;
      node.role = "role" + std::to_string((seed >> (i % 32)) % static_cast<unsigned>(shape.roles));
      if (shape.notice && i % 2 == 0) {
        node.preempt_signal = SIGUSR1;
        node.preempt_notice = std::chrono::seconds(5);
      }
      node.host = "node" + std::to_string(i);
      node.command = {"./train"};
      node.health_check = shape.health_check;
      nodes_.push_back(std::make_unique<Node>(
          cluster_, i, job, node,
          i < shape.endpoints ? std::optional(static_cast<std::size_t>(i)) : std::nullopt));
    }
    cluster_.script = [](int, std::uint32_t, int) { return Script{}; };
    // With one endpoint, an agent that has forgotten everything needs a clock that does not go back.
    if (shape.endpoints > 1) {
      cluster_.clock_error = [random = std::mt19937_64(seed)](int) mutable {
        return std::chrono::milliseconds(static_cast<std::int64_t>(random() % 1000) - 500);
      };
    }
    cluster_.on_world = [this](agent::AgentId leader, std::uint32_t round) {
      EXPECT_TRUE(id_.emplace(std::pair(leader, round), rounds_.size()).second)
          << "round " << round << " twice";
      rounds_.emplace_back().began = world_.now();
    };
    cluster_.on_signal = [this](int node, int signo) {
      if (signo == SIGUSR1) noticed(node);
    };
    cluster_.on_spawn = [this](int node, const agent::ProcKey& key, const agent::Command& command) {
      if (key != agent::health_check) spawned(node, key, command);
    };
    cluster_.on_end = [this](int node, const agent::ProcKey& key) {
      if (key != agent::health_check) ended(node, key);
    };
  }

  World& world() { return world_; }
  Cluster& cluster() { return cluster_; }
  Node& node(int i) { return *nodes_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  int machines() const { return static_cast<int>(nodes_.size()); }
  void start_all() {
    for (const auto& node : nodes_) node->start();
  }
  std::size_t run(Duration time) { return world_.run(world_.now() + time); }

  struct Round {
    int world_size = 0;
    int nodes = 0;
    std::string store;
    std::string restart_count;
    std::uint64_t token = 0;
    TimePoint began;
    std::map<int, int> ranks;                                    // by rank: the machine
    std::map<int, int> group_rank;                               // by machine
    std::map<std::string, std::pair<int, std::set<int>>> roles;  // by name: how many workers, and their ranks
    bool operator==(const Round&) const = default;
  };
  // In the order of their forming.
  const std::vector<Round>& rounds() const { return rounds_; }
  [[nodiscard]] std::size_t notices() const { return notices_.size(); }
  const Round& last_round() const { return rounds_.back(); }
  [[nodiscard]] bool complete(const Round& round) const {
    return static_cast<int>(round.ranks.size()) == round.world_size;
  }
  // The machines of the newest round whose workers run.
  std::set<int> running() const {
    std::set<int> machines;
    for (const auto& [who, round] : running_) {
      if (round + 1 == rounds_.size()) machines.insert(who.first);
    }
    return machines;
  }

  std::set<int> exit_codes() const {
    std::set<int> codes;
    for (const auto& node : nodes_) {
      if (node->answers() || !node->started() || !node->outcome()) continue;
      codes.insert(node->outcome()->exit_code);
    }
    return codes;
  }
  // Every living agent has ended, and no process is left.
  void check_ended() const {
    for (const auto& node : nodes_) {
      if (!node->alive() || !node->started()) continue;
      ASSERT_TRUE(node->outcome().has_value())
          << "node " << node->index() << " has not ended: " << node->runner()->status().state << ", "
          << node->runner()->status().waiting_for << "\n"
          << what_was_said();
      EXPECT_EQ(node->processes(), 0U) << "node " << node->index();
      EXPECT_LE(node->outcome()->restarts_used, shape_.max_restarts);
    }
    EXPECT_TRUE(running_.empty());
  }

  std::string what_was_said() const {
    std::string text;
    for (const auto& node : nodes_) {
      text += "node " + std::to_string(node->index()) + (node->alive() ? "" : " (dead)") +
              (node->started() ? "" : " (never started)") + ":\n";
      for (const std::string& line : node->said()) text += "  " + line + "\n";
    }
    return text;
  }
  std::uint64_t trace() const { return trace_; }

 private:
  static std::string value_of(const agent::Command& command, std::string_view name) {
    for (const auto& [key, value] : command.environment) {
      if (key == name) return value;
    }
    return "";
  }

  void spawned(int machine, const agent::ProcKey& key, const agent::Command& command) {
    const int rank = std::stoi(value_of(command, env::rank));
    const int group_rank = std::stoi(value_of(command, env::group_rank));
    const auto id = id_.at({node(machine).runner()->world().leader, key.round});
    Round& round = rounds_[id];
    if (round.ranks.empty()) {
      round.world_size = std::stoi(value_of(command, env::world_size));
      round.nodes = std::stoi(value_of(command, env::group_world_size));
      round.store = value_of(command, env::master_addr);
      round.restart_count = value_of(command, env::restart_count);
      round.token = std::stoull(value_of(command, env::fencing_token));
      check_tokens(id);
      EXPECT_GE(round.nodes, shape_.min_nodes);
      EXPECT_LE(round.nodes, shape_.nnodes);
      EXPECT_EQ(round.world_size, round.nodes * shape_.slots);
    }
    // All nodes got the same world.
    EXPECT_EQ(round.world_size, std::stoi(value_of(command, env::world_size))) << "round " << key.round;
    EXPECT_EQ(round.nodes, std::stoi(value_of(command, env::group_world_size))) << "round " << key.round;
    EXPECT_EQ(round.store, value_of(command, env::master_addr)) << "round " << key.round;
    EXPECT_EQ(round.restart_count, value_of(command, env::restart_count)) << "round " << key.round;
    EXPECT_EQ(std::to_string(round.token), value_of(command, env::fencing_token)) << "round " << key.round;
    EXPECT_LT(rank, round.world_size);
    EXPECT_TRUE(round.ranks.emplace(rank, machine).second)
        << "rank " << rank << " of round " << key.round << " twice: on node " << machine << " and "
        << round.ranks[rank] << "\n"
        << what_was_said();
    round.group_rank[machine] = group_rank;
    check_role(round, command);
    if (complete(round)) {
      std::size_t workers = 0;
      for (const auto& [name, role] : round.roles) {
        EXPECT_EQ(role.first, static_cast<int>(role.second.size())) << name << " of round " << key.round;
        workers += role.second.size();
      }
      EXPECT_EQ(workers, round.ranks.size()) << "round " << key.round;
    }
    for (const auto& [who, running] : running_) {
      EXPECT_EQ(running, id) << "two worlds: a worker of round " << key.round << " starts on node " << machine
                             << " while one of round " << who.second.round << " runs on node " << who.first
                             << "\n"
                             << what_was_said();
    }
    running_[{machine, key}] = id;
    note(machine, key.round, rank);
  }

  // The token of this world, in the order of the worlds.
  void check_tokens(std::size_t id) const {
    const std::uint64_t token = rounds_[id].token;
    EXPECT_GT(token, 0U);
    for (std::size_t other = 0; other < rounds_.size(); ++other) {
      if (rounds_[other].token == 0 || other == id) continue;
      EXPECT_EQ(other < id, rounds_[other].token < token)
          << "tokens " << rounds_[other].token << " of world " << other << ", " << token << " of world " << id
          << "\n"
          << what_was_said();
    }
  }

  // Each rank of a role exists once, and all its workers know its size.
  static void check_role(Round& round, const agent::Command& command) {
    const int rank = std::stoi(value_of(command, env::role_rank));
    const int size = std::stoi(value_of(command, env::role_world_size));
    auto& [workers, ranks] =
        round.roles.try_emplace(value_of(command, env::role_name), size, std::set<int>{}).first->second;
    EXPECT_EQ(workers, size);
    EXPECT_GE(rank, 0);
    EXPECT_LT(rank, size);
    EXPECT_TRUE(ranks.insert(rank).second) << "rank " << rank << " of a role twice";
  }

  void ended(int machine, const agent::ProcKey& key) {
    const auto running = running_.extract({machine, key});
    ASSERT_TRUE(running);
    note(machine, key.round, -1 - static_cast<int>(key.local_rank));
  }

  // At most once in a round, and only if it is expected.
  void noticed(int machine) {
    EXPECT_TRUE(shape_.notice && machine % 2 == 0) << "node " << machine;
    const auto worker = running_.lower_bound({machine, agent::ProcKey{}});
    if (worker == running_.end() || worker->first.first != machine) return;
    EXPECT_TRUE(notices_.emplace(machine, worker->second).second) << "two notices on node " << machine << "\n"
                                                                  << what_was_said();
  }

  // A hash of all events: equal for equal runs.
  void note(int machine, std::uint32_t round, int what) {
    for (std::uint64_t part :
         {static_cast<std::uint64_t>(machine), std::uint64_t{round}, static_cast<std::uint64_t>(what),
          static_cast<std::uint64_t>(world_.now().time_since_epoch().count())}) {
      trace_ = (trace_ ^ part) * 0x100000001b3ULL;
    }
  }

  Shape shape_;
  World world_;
  Cluster cluster_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Round> rounds_;
  std::map<std::pair<agent::AgentId, std::uint32_t>, std::size_t> id_;  // by the identity of a world
  std::map<std::pair<int, agent::ProcKey>, std::size_t> running_;       // the round's number
  std::set<std::pair<int, std::size_t>> notices_;                       // by machine: the round's number
  std::uint64_t trace_ = 0xcbf29ce484222325ULL;
};

inline Script long_life(Duration life = std::chrono::minutes(10)) {
  Script script;
  script.life = life;
  return script;
}

// A job whose workers run for long; the test decides what happens to them.
inline std::unique_ptr<ElasticJob> steady(std::uint64_t seed, Shape shape,
                                          Duration life = std::chrono::minutes(10)) {
  auto job = std::make_unique<ElasticJob>(seed, shape);
  job->cluster().swallowed = 0;
  job->cluster().script = [life](int, std::uint32_t, int) { return long_life(life); };
  return job;
}

}  // namespace dlaunch::sim
