// The keeper with real processes: where a program is looked for, what a worker is bound to, why it could not
// be started, and many that begin at once.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "agent/platform/reaper.h"
#include "agent/process/job_mark.h"
#include "agent/process/keeper_spawner.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::agent {
namespace {

enum class Keepers : std::uint8_t { runs, was_stopped };

// Some starts, given to the keeper in one go, until each has failed or ended. The signal, where there is one,
// is asked for right behind them, or when somebody has stopped the keeper.
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
    EXPECT_EQ(pids[key.local_rank], pid) << "it was said to have started before";
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

  std::map<std::uint32_t, std::string> came;   // by local rank
  std::map<std::uint32_t, std::int64_t> pids;  // of those that started

 private:
  void end(ProcKey key, std::string what) {
    EXPECT_TRUE(came.emplace(key.local_rank, std::move(what)).second) << "a second end of " << key.local_rank;
    if (--open_ == 0) loop_->stop();
  }
  UvLoop* loop_ = nullptr;
  std::size_t open_ = 0;
};

std::string what_came_of(const Command& command) { return SeveralStarts({command}).came[0]; }

// A folder with programs, and PATH for the time of a test.
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
  [[nodiscard]] std::string said_by(const std::string& program) const {
    return what_came_of({{program, "word"}, {}, {}});
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

TEST(Spawner, AWorkerIsBoundBeforeItBegins) {
  Command command = show_cpus;
  command.cpus = {some_allowed_cpu()};
  EXPECT_EQ(what_came_of(command), "exited with code 0: " + std::to_string(some_allowed_cpu()));
}

TEST(Spawner, ABindingThatCannotBeMadeIsSaidAndNothingStarted) {
  Command command = show_cpus;
  command.cpus = {60'000};
  EXPECT_EQ(what_came_of(command), "not started: cannot bind it to its CPUs: Invalid argument");
}

// The policy of this process for a moment: whether a worker could have it.
bool kernel_takes_policy(int policy, unsigned long nodes) {
  if (syscall(SYS_set_mempolicy, policy, &nodes, 8 * sizeof nodes + 1) != 0) return false;
  return syscall(SYS_set_mempolicy, 0, nullptr, 0) == 0;
}

std::string memory_policy_of(const std::vector<int>& nodes) {
  Command command{{"sh", "-c", "sed -n '1s/^[0-9a-f]* //; 1s/ [a-z]*=.*//p' /proc/self/numa_maps >&2"}, {}};
  command.memory_nodes = nodes;
  return what_came_of(command);
}

TEST(Spawner, AWorkersMemoryIsFromItsNodes) {
  if (!kernel_takes_policy(1, 1)) GTEST_SKIP() << "no memory policy may be set here";
  EXPECT_EQ(memory_policy_of({}), "exited with code 0: default");
  EXPECT_EQ(memory_policy_of({0}), "exited with code 0: prefer:0");
}

TEST(Spawner, AWorkersMemoryIsFromSeveralNodes) {
  if (!kernel_takes_policy(5, 1)) GTEST_SKIP() << "several nodes cannot be preferred here";
  // Of these, the ones that the machine has.
  EXPECT_TRUE(memory_policy_of({0, 1}).starts_with("exited with code 0: prefer (many):0"));
}

TEST(Spawner, MissingMemoryNodeIsNoFailure) {
  EXPECT_EQ(what_came_of({{"true"}, {}, 0, 0, {}, {60'000}}), "exited with code 0");
}

TEST(Spawner, AMissingProgramIsSaid) {
  EXPECT_EQ(what_came_of({{"./no-such-program"}, {}, {}}), "not started: No such file or directory");
}

TEST_F(Programs, AreLookedForOnPathInItsOrder) {
  write("a/greet", "#!/bin/sh\necho first $1 >&2; exit 3\n");
  write("b/greet", "#!/bin/sh\necho second $1 >&2; exit 3\n");
  set_path("/no/such/folder:" + folder + "/a:" + folder + "/b");
  EXPECT_EQ(said_by("greet"), "exited with code 3: first word");
  set_path(folder + "/b:" + folder + "/a");
  EXPECT_EQ(said_by("greet"), "exited with code 3: second word");
  EXPECT_EQ(said_by(folder + "/a/greet"), "exited with code 3: first word");
  EXPECT_EQ(said_by("greeting"), "not started: No such file or directory");
}

TEST_F(Programs, AreFoundInTheWorkingDirectoryIfPathHasAnEmptyEntry) {
  write("greet", "#!/bin/sh\nexit 4\n");
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  set_path("/no/such/folder:");
  EXPECT_EQ(said_by("greet"), "exited with code 4");
  std::filesystem::current_path(here);
}

TEST_F(Programs, ThatMayNotBeRunDoNotHideOthers) {
  write("a/greet", "#!/bin/sh\nexit 3\n", 0644);
  set_path(folder + "/a");
  EXPECT_EQ(said_by("greet"), "not started: Permission denied");
  set_path(folder + "/a:/no/such/folder");
  EXPECT_EQ(said_by("greet"), "not started: Permission denied");
  write("b/greet", "#!/bin/sh\nexit 5\n");
  set_path(folder + "/a:" + folder + "/b");
  EXPECT_EQ(said_by("greet"), "exited with code 5");
}

TEST_F(Programs, WithoutAnInterpreterLineAreAShells) {
  write("greet", "echo $0 $1 >&2; exit 6\n");
  EXPECT_EQ(said_by(folder + "/greet"), "exited with code 6: " + folder + "/greet word");
}

TEST_F(Programs, OfAnotherMachineAreNoShells) {
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
  EXPECT_TRUE(said_by(folder + "/far").starts_with(sentence)) << said_by(folder + "/far");
  set_path(folder);
  EXPECT_TRUE(said_by("far").starts_with(sentence)) << said_by("far");
}

TEST(Spawner, StartFailureDoesNotDelayOtherWorkers) {
  std::vector<Command> commands;
  for (int rank = 0; rank < 64; ++rank)
    commands.push_back({{rank % 3 == 0 ? "./no-such-program" : "true"}, {}, rank});
  const SeveralStarts starts(commands);
  for (std::uint32_t rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(starts.came.at(rank),
              rank % 3 == 0 ? "not started: No such file or directory" : "exited with code 0");
    EXPECT_EQ(starts.pids.contains(rank), rank % 3 != 0);
  }
}

// It is delivered to every one of them, also to those that were only just begun.
TEST(Spawner, ASignalRightBehindTheStartReachesAll) {
  const SeveralStarts starts(std::vector<Command>(32, Command{{"sleep", "1000"}, {}, {}}), SIGTERM);
  for (std::uint32_t rank = 0; rank < 32; ++rank)
    EXPECT_EQ(starts.came.at(rank), "was killed by signal 15 (SIGTERM, terminated)");
}

TEST(Spawner, AStoppedKeeperStopsTheWorkersAllTheSame) {
  const SeveralStarts starts({Command{{"sleep", "1000"}, {}, {}}}, SIGTERM, Keepers::was_stopped);
  EXPECT_EQ(starts.came.at(0), "was killed by signal 15 (SIGTERM, terminated)");
}

// A process of a job that has lost everything by which it could be known, but for its mark.
pid_t start_stray(JobMark mark) {
  int said[2];
  EXPECT_EQ(pipe2(said, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    carry(mark);
    if (fork() > 0) _exit(0);  // its parent
    setsid();
    const pid_t own = getpid();
    if (write(said[1], &own, sizeof own) != sizeof own) _exit(1);
    char* const no_environment[] = {nullptr};
    execle("/bin/sleep", "sleep", "1000", nullptr, no_environment);
    _exit(1);
  }
  close(said[1]);
  pid_t stray = 0;
  EXPECT_EQ(read(said[0], &stray, sizeof stray), static_cast<ssize_t>(sizeof stray));
  close(said[0]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return stray;
}

TEST(JobMark, FindsProcessesByTheMarkAlone) {
  const JobMark mark = make_job_mark();
  if (mark == no_job_mark) GTEST_SKIP() << "limits on file locks cannot be set here";
  const JobMark other = make_job_mark();
  ASSERT_NE(mark, other);
  const pid_t ours = start_stray(mark);
  const pid_t stranger = start_stray(other);
  EXPECT_EQ(kill_marked_processes(no_job_mark), std::vector<pid_t>{});
  EXPECT_EQ(kill_marked_processes(mark, ours), std::vector<pid_t>{}) << "it is spared";
  EXPECT_EQ(kill_marked_processes(mark), std::vector<pid_t>{ours});
  while (birth_of(ours)) poll(nullptr, 0, 1);
  EXPECT_EQ(kill_marked_processes(mark), std::vector<pid_t>{}) << "it has ended";
  EXPECT_TRUE(birth_of(stranger));
  EXPECT_EQ(kill_marked_processes(other), std::vector<pid_t>{stranger});
}

TEST(JobMark, AJobInsideAJobKeepsTheOutersMark) {
  const pid_t child = fork();
  if (child == 0) {
    carry(make_job_mark());
    _exit(make_job_mark() == no_job_mark ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// An agent that ends while its keeper is stopped.
[[noreturn]] void end_with_a_stopped_keeper() {
  char name[64] = "spawner_test";
  const auto keeper = start_keeper(name, sizeof name, {}, nullptr, std::chrono::milliseconds(1));
  Frame ready;
  if (!keeper || read(keeper->socket, &ready, sizeof ready) != sizeof ready) _exit(1);
  _exit(kill(static_cast<pid_t>(ready.number), SIGSTOP) == 0 ? 0 : 2);
}

TEST(Guard, EndsAKeeperThatIsStoppedWhenItsTimeIsOver) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t agent = fork();
  if (agent == 0) end_with_a_stopped_keeper();
  close(ends[1]);
  int status = -1;
  ASSERT_EQ(waitpid(agent, &status, 0), agent);
  EXPECT_EQ(status, 0);
  pollfd held{ends[0], POLLIN, 0};  // by guard and keeper, which have it from the agent
  EXPECT_EQ(poll(&held, 1, 60'000), 1) << "the keeper, or its guard, is still there";
  close(ends[0]);
}

}  // namespace
}  // namespace dlaunch::agent
