// KeeperSpawner with real processes: where it searches a program, what a worker is bound to, why a worker
// could not be started, and many that start at once.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "agent/process/keeper_spawner.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::agent {
namespace {

enum class Keepers : std::uint8_t { runs, was_stopped };

// Runs some starts, given to the keeper in one go, until each has failed or ended. A signal, if given, is
// requested right behind them, or after the keeper was stopped.
class SeveralStarts final : public SpawnerHandler, public TimerHandler {
 public:
  explicit SeveralStarts(const std::vector<Command>& commands, int signo = 0, Keepers state = Keepers::runs) {
    char name[64] = "spawner_test";
    auto keeper = start_keeper(name, sizeof name, {});
    EXPECT_TRUE(keeper.ok());
    if (!keeper) return;
    UvLoop loop;
    loop_ = &loop;
    UvPoller poller(loop);
    Output output(poller, {});
    Postmortem postmortem("", "", nullptr);
    KeeperSpawner spawner(poller, output, postmortem, *keeper);
    spawner.set_handler(*this);
    loop.arm(loop.now() + std::chrono::seconds(30), *this);
    open_ = commands.size();
    for (std::uint32_t rank = 0; rank < commands.size(); ++rank) spawner.spawn({0, rank}, commands[rank]);
    if (signo != 0 && state == Keepers::runs) spawner.signal_all(signo);
    EXPECT_TRUE(spawner.await_keeper().ok());
    if (state == Keepers::was_stopped) {
      kill(spawner.keeper(), SIGSTOP);
      spawner.signal_all(signo);
    }
    loop.run();
  }

  void on_started(ProcKey key, std::int64_t pid) override { pids[key.local_rank] = pid; }
  void on_spawn_failed(ProcKey key, const std::string& why) override { end(key, "not started: " + why); }
  void on_exited(ProcKey key, std::int64_t pid, const WorkerExit& exit) override {
    EXPECT_EQ(pids[key.local_rank], pid) << "its start was reported before";
    end(key, describe(exit.status) + (exit.tail.empty() ? "" : ": " + exit.tail));
  }
  void on_leftovers(int, const std::string&) override {}
  void on_all_gone() override {}
  void on_workers_lost(const std::string& keeper) override { ADD_FAILURE() << keeper; }
  void on_spawner_lost(const std::string& why) override { ADD_FAILURE() << why; }
  void on_timer(TimerId) override {
    ADD_FAILURE() << open_ << " have not ended in 30 s";
    loop_->stop();
  }

  std::map<std::uint32_t, std::string> results;  // by local rank
  std::map<std::uint32_t, std::int64_t> pids;    // of those that started

 private:
  void end(ProcKey key, std::string what) {
    EXPECT_TRUE(results.emplace(key.local_rank, std::move(what)).second)
        << "a second end of " << key.local_rank;
    if (--open_ == 0) loop_->stop();
  }
  UvLoop* loop_ = nullptr;
  std::size_t open_ = 0;
};

std::string result_of(const Command& command) { return SeveralStarts({command}).results[0]; }

// A folder with programs, and PATH during a test.
class Programs : public testing::Test {
 protected:
  Programs() {
    char name[] = "/tmp/dlaunch_spawner_test.XXXXXX";
    folder = mkdtemp(name);
    before_ = std::getenv("PATH");
  }
  ~Programs() override {
    set_path(before_);
    std::filesystem::remove_all(folder);
  }
  static void set_path(const std::string& path) { setenv("PATH", path.c_str(), 1); }
  void write(const std::string& name, const std::string& text, mode_t mode = 0755) const {
    std::filesystem::create_directories(std::filesystem::path(folder + "/" + name).parent_path());
    std::ofstream(folder + "/" + name) << text;
    chmod((folder + "/" + name).c_str(), mode);
  }
  [[nodiscard]] std::string output_of(const std::string& program) const {
    return result_of({{program, "word"}, {}, {}});
  }

  std::string folder;

 private:
  std::string before_;
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

TEST(KeeperSpawner, AWorkerIsBoundBeforeItBegins) {
  Command command = show_cpus;
  command.cpus = {some_allowed_cpu()};
  EXPECT_EQ(result_of(command), "exited with code 0: " + std::to_string(some_allowed_cpu()));
}

TEST(KeeperSpawner, ABindingThatCannotBeMadeIsReportedAndNothingStarted) {
  Command command = show_cpus;
  command.cpus = {60'000};
  EXPECT_EQ(result_of(command), "not started: cannot bind it to its CPUs: Invalid argument");
}

// Sets the policy of this process for a moment, to see if a worker could have it.
bool kernel_takes_policy(int policy, unsigned long nodes) {
  if (syscall(SYS_set_mempolicy, policy, &nodes, 8 * sizeof nodes + 1) != 0) return false;
  return syscall(SYS_set_mempolicy, 0, nullptr, 0) == 0;
}

std::string memory_policy_of(const std::vector<int>& nodes) {
  Command command{{"sh", "-c", "sed -n '1s/^[0-9a-f]* //; 1s/ [a-z]*=.*//p' /proc/self/numa_maps >&2"}, {}};
  command.memory_nodes = nodes;
  return result_of(command);
}

TEST(KeeperSpawner, AWorkersMemoryComesFromItsNodes) {
  if (!kernel_takes_policy(1, 1)) GTEST_SKIP() << "no memory policy may be set here";
  EXPECT_EQ(memory_policy_of({}), "exited with code 0: default");
  EXPECT_EQ(memory_policy_of({0}), "exited with code 0: prefer:0");
}

TEST(KeeperSpawner, AWorkersMemoryComesFromSeveralNodes) {
  if (!kernel_takes_policy(5, 1)) GTEST_SKIP() << "several nodes cannot be preferred here";
  // Only those nodes that the machine has.
  EXPECT_TRUE(memory_policy_of({0, 1}).starts_with("exited with code 0: prefer (many):0"));
}

TEST(KeeperSpawner, MissingMemoryNodeIsNoFailure) {
  EXPECT_EQ(result_of({{"true"}, {}, 0, 0, {}, {60'000}}), "exited with code 0");
}

TEST(KeeperSpawner, AMissingProgramIsReported) {
  EXPECT_EQ(result_of({{"./no-such-program"}, {}, {}}), "not started: No such file or directory");
}

TEST_F(Programs, AreSearchedInTheOrderOfPath) {
  write("a/greet", "#!/bin/sh\necho first $1 >&2; exit 3\n");
  write("b/greet", "#!/bin/sh\necho second $1 >&2; exit 3\n");
  set_path("/no/such/folder:" + folder + "/a:" + folder + "/b");
  EXPECT_EQ(output_of("greet"), "exited with code 3: first word");
  set_path(folder + "/b:" + folder + "/a");
  EXPECT_EQ(output_of("greet"), "exited with code 3: second word");
  EXPECT_EQ(output_of(folder + "/a/greet"), "exited with code 3: first word");
  EXPECT_EQ(output_of("greeting"), "not started: No such file or directory");
}

TEST_F(Programs, AreFoundInTheWorkingDirectoryIfPathHasAnEmptyEntry) {
  write("greet", "#!/bin/sh\nexit 4\n");
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  set_path("/no/such/folder:");
  EXPECT_EQ(output_of("greet"), "exited with code 4");
  std::filesystem::current_path(here);
}

TEST_F(Programs, WithoutPermissionDoNotHideOthers) {
  write("a/greet", "#!/bin/sh\nexit 3\n", 0644);
  set_path(folder + "/a");
  EXPECT_EQ(output_of("greet"), "not started: Permission denied");
  set_path(folder + "/a:/no/such/folder");
  EXPECT_EQ(output_of("greet"), "not started: Permission denied");
  write("b/greet", "#!/bin/sh\nexit 5\n");
  set_path(folder + "/a:" + folder + "/b");
  EXPECT_EQ(output_of("greet"), "exited with code 5");
}

TEST_F(Programs, WithoutAnInterpreterLineAreRunByAShell) {
  write("greet", "echo $0 $1 >&2; exit 6\n");
  EXPECT_EQ(output_of(folder + "/greet"), "exited with code 6: " + folder + "/greet word");
}

TEST_F(Programs, OfAnotherMachineAreNotRunByAShell) {
  set_path("/usr/bin:/bin");
  std::string program = "\177ELF\2\1\1";
  program.resize(18);
  program += "\xb7";  // aarch64
  program.resize(200);
#if defined(__aarch64__)
  program[18] = 62;  // x86_64
  const std::string sentence = "not started: it is an x86_64 program, and this machine is aarch64 ";
#else
  const std::string sentence = "not started: it is an aarch64 program, and this machine is ";
#endif
  write("far", program + "\necho run by a shell >&2\n");
  EXPECT_TRUE(output_of(folder + "/far").starts_with(sentence)) << output_of(folder + "/far");
  set_path(folder);
  EXPECT_TRUE(output_of("far").starts_with(sentence)) << output_of("far");
}

TEST(KeeperSpawner, StartFailureDoesNotDelayOtherWorkers) {
  std::vector<Command> commands;
  for (int rank = 0; rank < 64; ++rank)
    commands.push_back({{rank % 3 == 0 ? "./no-such-program" : "true"}, {}, rank});
  const SeveralStarts starts(commands);
  for (std::uint32_t rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(starts.results.at(rank),
              rank % 3 == 0 ? "not started: No such file or directory" : "exited with code 0");
    EXPECT_EQ(starts.pids.contains(rank), rank % 3 != 0);
  }
}

// Every worker receives it, also those that were begun a moment ago.
TEST(KeeperSpawner, ASignalRightBehindTheStartReachesAll) {
  const SeveralStarts starts(std::vector<Command>(32, Command{{"sleep", "1000"}, {}, {}}), SIGTERM);
  for (std::uint32_t rank = 0; rank < 32; ++rank)
    EXPECT_EQ(starts.results.at(rank), "was killed by signal 15 (SIGTERM, terminated)");
}

TEST(KeeperSpawner, AStoppedKeeperStillStopsTheWorkers) {
  const SeveralStarts starts({Command{{"sleep", "1000"}, {}, {}}}, SIGTERM, Keepers::was_stopped);
  EXPECT_EQ(starts.results.at(0), "was killed by signal 15 (SIGTERM, terminated)");
}

}  // namespace
}  // namespace dlaunch::agent
