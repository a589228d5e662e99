// What the decisions of a leader cost a processor: the messages of all nodes of a job, without any network.
//
//   build/bin/leader_bench [NODES ...]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "agent/control/coordinator.h"
#include "agent/model/job_rules.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Leader {
 public:
  explicit Leader(int nodes)
      : nodes_(nodes), coordinator_(job(), job().master, 1, now_, 1'700'000'000'000'000) {
    coordinator_.begin();
  }

  // Milliseconds until the messages of all nodes are handled.
  template <class MessageOf>
  double all_send(const MessageOf& message_of) {
    now_ += milliseconds(500);
    const auto began = std::chrono::steady_clock::now();
    for (int node = 0; node < nodes_; ++node) step(FromMember{static_cast<MemberId>(node), message_of(node)});
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  }
  [[nodiscard]] JobSpec job() const {
    JobSpec job;
    job.id = "bench";
    job.min_nodes = job.nnodes = nodes_;
    job.max_restarts = 1;
    job.hang_note = seconds(300);
    job.master = {"host0", 29500};
    return job;
  }
  [[nodiscard]] Join join(int node) const {
    Join join{job().id, node, 1, "host" + std::to_string(node), "0.2", static_cast<AgentId>(node) + 1};
    join.rules = rules_of(job());
    return join;
  }
  [[nodiscard]] std::uint32_t round() const { return coordinator_.round(); }
  void step(const CoordinatorEvent& event) { (void)coordinator_.step(now_, event); }
  void expect(Coordinator::State state) const {
    if (coordinator_.state() == state) return;
    std::fprintf(stderr, "leader_bench: the job of %d nodes is in another state than was expected\n", nodes_);
    std::exit(EXIT_FAILURE);
  }

 private:
  int nodes_;
  TimePoint now_{seconds(100)};
  Coordinator coordinator_;
};

void measure(int nodes) {
  using State = Coordinator::State;
  Leader leader(nodes);
  std::vector<Message> joins;
  for (int node = 0; node < nodes; ++node) joins.emplace_back(leader.join(node));
  const double joined =
      leader.all_send([&](int node) { return std::move(joins[static_cast<std::size_t>(node)]); });
  leader.expect(State::running);
  const double beat = leader.all_send([](int) { return Heartbeat{}; });
  const double stalled = leader.all_send([](int) { return Progress{0, seconds(60), true, {}}; });
  Failure failure;
  failure.kind = FailureKind::worker;
  failure.status = {ExitStatus::How::exited, 1, false};
  leader.step(FromMember{0, Failed{failure, {}}});
  leader.expect(State::stopping);
  const double restarted = leader.all_send([](int) { return Stopped{0}; });
  leader.expect(State::running);
  const double ended = leader.all_send([&](int) { return Done{leader.round()}; });
  leader.expect(State::ending);
  std::printf("%7d %10.1f %10.1f %10.1f %10.1f %10.1f\n", nodes, joined, beat, stalled, restarted, ended);
}

}  // namespace
}  // namespace dlaunch::agent

int main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {64, 1024, 4096, 16384};
  std::printf("milliseconds of a processor until the messages of all nodes are handled\n");
  std::printf("%7s %10s %10s %10s %10s %10s\n", "nodes", "join", "heartbeat", "stall", "restart", "end");
  for (const int nodes : sizes) dlaunch::agent::measure(nodes);
}
