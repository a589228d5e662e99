#include "launcher/node/unfit_node.h"

#include <algorithm>
#include <optional>

#include "agent/control/handshake.h"
#include "agent/node/runner.h"
#include "launcher/node/tls.h"
#include "store/base/random.h"
#include "store/loop/uv_loop.h"

namespace dlaunch::launcher {
namespace {

// No worker is ever requested.
class NoSpawner final : public agent::ProcessSpawner {
 public:
  void set_handler(agent::SpawnerHandler&) override {}
  void spawn(agent::ProcKey, const agent::Command&) override {}
  void signal_all(int) override {}
  void kill_all() override {}
  std::string give_up() override { return "a process"; }
  void keep_alive(TimePoint) override {}
};

// This node has already printed the reason.
class SilentReporter final : public agent::Reporter {
 public:
  void report(const agent::LogMessage&) override {}
};

}  // namespace

void report_unfit_node(const JobPlan& plan, const std::string& secret, bool tls, const Error& why) {
  constexpr Duration patience = std::chrono::seconds(10);
  const bool others_serve = plan.serves == JobPlan::Serves::no;
  if (!others_serve || plan.job.nnodes + plan.job.spares == 1) return;
  UvLoop loop;
  SecureNetwork network(loop, loop, tls ? tls_sessions(secret) : SecureNetwork::Sessions{});
  NoSpawner spawner;
  SilentReporter reporter;
  agent::Runner::Config run{plan.job,     plan.node, DLAUNCH_VERSION,         {},
                            std::nullopt, {},        [&loop] { loop.stop(); }};
  run.job.join_timeout = std::min(patience, run.job.join_timeout);
  run.node.unfit = why.message();
  run.node.health_check.clear();
  run.secret = secret;
  run.draw_nonce = [] { return random_bytes(agent::nonce_size); };
  agent::Runner runner({loop, loop, network, spawner, reporter}, std::move(run));
  runner.begin();
  if (!runner.outcome()) loop.run();
}

}  // namespace dlaunch::launcher
