// The start of a job on 4,096 hosts: RemoteJob with simulated ssh, by a virtual clock, with a fault in some
// of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "launcher/remote/remote_job.h"
#include "store/base/overloaded.h"

namespace dlaunch::launcher {
namespace {

using std::chrono::milliseconds;

#if defined(__SANITIZE_ADDRESS__)  // which looks for other faults, with any number of them
constexpr int hosts = 2048;
#else
constexpr int hosts = 4096;
#endif

enum class Fault : std::uint8_t { none, refused, silent, lost };

RemotePlan plan_of_all(int tree_width) {
  const std::vector<int> starters = start_tree(std::vector<bool>(hosts), tree_width);
  RemotePlan plan;
  plan.job.stop_timeout.usual = std::chrono::seconds(30);
  plan.job.join_timeout = std::chrono::seconds(60);
  for (int i = 0; i < hosts; ++i)
    plan.hosts.push_back({"h" + std::to_string(i),
                          "h" + std::to_string(i),
                          false,
                          {"ssh"},
                          "",
                          {},
                          starters[static_cast<std::size_t>(i)]});
  return plan;
}

class Simulation {
 public:
  // A way to a host takes from `quickest` to `slowest`; `faulty` has the fault.
  Simulation(int tree_width, unsigned seed, Duration quickest, Duration slowest, int faulty = -1,
             Fault fault = Fault::none)
      : plan_(plan_of_all(tree_width)),
        random_(seed),
        quickest_(quickest),
        slowest_(slowest),
        faulty_(faulty),
        fault_(fault) {}

  void run() {
    act(job_.begin(now_));
    while (!job_.ended()) {
      const bool is_timer = timer_ && (queue_.empty() || *timer_ <= queue_.begin()->first);
      ASSERT_TRUE(is_timer || !queue_.empty()) << "it waits for nothing";
      if (is_timer) {
        now_ = *timer_;
        timer_.reset();
        act(job_.step(now_, RemoteTimer{}));
        continue;
      }
      const auto [at, event] = *queue_.begin();
      queue_.erase(queue_.begin());
      now_ = at;
      happen(event);
    }
  }

  [[nodiscard]] Duration all_up_after() const { return all_up_ - TimePoint{}; }
  [[nodiscard]] Duration ended_after() const { return now_ - TimePoint{}; }
  [[nodiscard]] std::size_t most_starting() const { return most_starting_; }
  [[nodiscard]] std::size_t left() const { return starting_.size() + up_.size(); }
  [[nodiscard]] RemoteOutcome outcome() const { return job_.outcome(); }

 private:
  void happen(const RemoteEvent& event) {
    std::visit(Overloaded{[&](const HostReady& e) { become_ready(e); },
                          [&](const HostGone& e) { become_gone(e); }, [](const auto&) {}},
               event);
  }

  void become_ready(const HostReady& event) {
    if (starting_.erase(event.node) == 0) return;  // it was given up
    up_.insert(event.node);
    for (const int node : std::exchange(behind_[event.node], {})) connect(node);
    if (event.node == faulty_ && fault_ == Fault::lost)
      later(std::chrono::seconds(1), gone(event.node, 255, ""));
    if (up_.size() == hosts) {
      all_up_ = now_;
      if (fault_ == Fault::none) end_all(0);
    }
    act(job_.step(now_, event));
  }

  void become_gone(const HostGone& event) {
    if (starting_.erase(event.node) + up_.erase(event.node) == 0) return;
    act(job_.step(now_, event));
    for (int node = event.node + 1; node < hosts; ++node) {
      if (starter_of(node) == event.node) later(milliseconds(1), gone(node, 255, ""));
    }
  }

  // The agents have decided among themselves that the job is over.
  void end_all(int code) {
    for (const int node : up_) end(node, code);
  }
  void end(int node, int code) {
    act(job_.step(now_, HostMessage{node, {AgentMessage::Kind::end, std::to_string(code)}}));
    later(milliseconds(50), gone(node, code, ""));
  }

  void act(const RemoteActions& actions) {
    for (const RemoteAction& action : actions) {
      std::visit(Overloaded{
                     [&](const RunHost& a) { start(a.node, a.directly); },
                     [&](const PassSignal& a) { later(milliseconds(50), gone(a.node, 128 + a.signo, "")); },
                     [&](const SignalHost& a) { later(milliseconds(1), gone(a.node, 128 + a.signo, "")); },
                     [&](const ArmRemoteTimer& a) { timer_ = a.at; },
                     [](const auto&) {},
                 },
                 action);
    }
  }

  [[nodiscard]] int starter_of(int node) const {
    return direct_.contains(node) ? started_from_here : plan_.hosts[static_cast<std::size_t>(node)].starter;
  }

  void start(int node, bool directly) {
    EXPECT_TRUE(started_.insert(node).second || (directly && direct_.insert(node).second))
        << node << " is started twice";
    starting_.insert(node);
    const int starter = starter_of(node);
    if (starter == started_from_here || up_.contains(starter)) {
      connect(node);
    } else {
      behind_[starter].push_back(node);
    }
    most_starting_ = std::max(most_starting_, starting_.size());
  }

  void connect(int node) {
    const bool fails = node == faulty_;
    if (fails && fault_ == Fault::silent) return;
    std::uniform_int_distribution<Duration::rep> way(quickest_.count(), slowest_.count());
    const Duration time{way(random_)};
    if (fails && fault_ == Fault::refused)
      return later(time, gone(node, 255, "Permission denied (publickey)."));
    later(time, HostReady{node});
  }

  static HostGone gone(int node, int code, const std::string& words) {
    return {node, {agent::ExitStatus::How::exited, code}, words};
  }
  void later(Duration time, RemoteEvent event) { queue_.emplace(now_ + time, std::move(event)); }

  const RemotePlan plan_;
  RemoteJob job_{plan_, Duration::zero()};
  std::mt19937 random_;
  const Duration quickest_;
  const Duration slowest_;
  const int faulty_;
  const Fault fault_;
  TimePoint now_;
  TimePoint all_up_;
  std::optional<TimePoint> timer_;
  std::multimap<TimePoint, RemoteEvent> queue_;
  std::set<int> started_;
  std::set<int> direct_;
  std::map<int, std::vector<int>> behind_;  // by starter: what waits for it
  std::set<int> starting_;
  std::set<int> up_;
  std::size_t most_starting_ = 0;
};

TEST(RemoteStart, Takes64HostsAtATime) {
  Simulation all(0, 1, milliseconds(500), milliseconds(500));
  all.run();
  EXPECT_EQ(all.all_up_after(), milliseconds(500) * hosts / RemoteJob::fan_out) << "half a minute";
  EXPECT_EQ(all.most_starting(), static_cast<std::size_t>(RemoteJob::fan_out));
  EXPECT_EQ(all.outcome().exit_code, 0);
  EXPECT_EQ(all.left(), 0U);
}

TEST(RemoteStart, ASlowHostDelaysNoOther) {
  Simulation all(0, 2, milliseconds(100), milliseconds(900));
  all.run();
  // The mean is what counts, and at the end the slowest of the last ones.
  EXPECT_LT(all.all_up_after(), milliseconds(500) * hosts / RemoteJob::fan_out * 11 / 10);
  EXPECT_EQ(all.outcome().exit_code, 0);
}

TEST(RemoteStart, ATreeTakesTwoStartsInsteadOf64) {
  Simulation all(64, 1, milliseconds(500), milliseconds(500));
  all.run();
  EXPECT_EQ(all.all_up_after(), milliseconds(1000));
  EXPECT_EQ(all.outcome().exit_code, 0);
  EXPECT_EQ(all.left(), 0U);
}

TEST(RemoteStart, TheHostThatFailsIsNamedWhereverItIs) {
  std::mt19937 random(3);
  for (const Fault fault : {Fault::refused, Fault::silent, Fault::lost}) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      const int faulty = std::uniform_int_distribution<int>(0, hosts - 1)(random);
      const int tree_width = seed % 2 == 0 ? 0 : 64;
      Simulation all(tree_width, seed, milliseconds(100), milliseconds(900), faulty, fault);
      all.run();
      const RemoteOutcome outcome = all.outcome();
      ASSERT_TRUE(outcome.cause) << faulty << ", tree of width " << tree_width;
      EXPECT_EQ(outcome.cause->node_rank, faulty);
      EXPECT_EQ(outcome.cause->host, "h" + std::to_string(faulty));
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_EQ(all.left(), 0U) << "nothing remains";
      // The start, --join-timeout, --stop-timeout, and the time to force an end.
      EXPECT_LT(all.ended_after(), std::chrono::seconds(40 + 60 + 60));
    }
  }
}

}  // namespace
}  // namespace dlaunch::launcher
