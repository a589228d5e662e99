// The keeper with real processes: what a worker is bound to, and why it could not be started.

#include <gtest/gtest.h>
#include <sched.h>

#include "agent/keeper_spawner.h"
#include "agent/uv_edge.h"
#include "store/base/uv_loop.h"

namespace dlaunch::agent {
namespace {

// One start, until it has failed or ended.
class OneStart final : public SpawnerHandler, public TimerHandler {
 public:
  explicit OneStart(const Command& command) {
    char name[64] = "spawner_test";
    auto keeper = start_keeper(name, sizeof name, {});
    EXPECT_TRUE(keeper.ok());
    if (!keeper) return;
    UvLoop loop;
    loop_ = &loop;
    UvEdge edge(loop);
    Output output(edge, {});
    Postmortem postmortem("", "", nullptr);
    KeeperSpawner spawner(edge, output, postmortem, *keeper);
    spawner.set_handler(*this);
    EXPECT_TRUE(spawner.await_keeper().ok());
    loop.arm(loop.now() + std::chrono::seconds(30), *this);
    spawner.spawn({}, command);
    loop.run();
  }

  void on_started(ProcKey, std::int64_t) override {}
  void on_spawn_failed(ProcKey, const std::string& why) override { end("not started: " + why); }
  void on_exited(ProcKey, std::int64_t, const Ending& ending) override {
    end(describe(ending.status) + ": " + ending.tail);
  }
  void on_leftovers(int, const std::string&) override {}
  void on_all_gone() override {}
  void on_spawner_lost(const std::string& why) override { end("lost: " + why); }
  void on_timer(TimerId) override { end("nothing in 30 s"); }

  std::string came;

 private:
  void end(std::string what) {
    came = std::move(what);
    loop_->stop();
  }
  UvLoop* loop_ = nullptr;
};

const Command show_cpus{{"sh", "-c", "sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status >&2"}, {}, {}};

int some_allowed_cpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) last = cpu;
  }
  return last;
}

TEST(Spawner, AWorkerIsBoundBeforeItBegins) {
  Command command = show_cpus;
  command.cpus = {some_allowed_cpu()};
  EXPECT_EQ(OneStart(command).came, "exited with code 0: " + std::to_string(some_allowed_cpu()));
}

TEST(Spawner, ABindingThatCannotBeMadeIsSaidAndNothingStarted) {
  Command command = show_cpus;
  command.cpus = {60'000};
  EXPECT_EQ(OneStart(command).came, "not started: cannot bind it to its CPUs: Invalid argument");
}

TEST(Spawner, AMissingProgramIsSaid) {
  EXPECT_EQ(OneStart({{"./no-such-program"}, {}, {}}).came, "not started: No such file or directory");
}

}  // namespace
}  // namespace dlaunch::agent
