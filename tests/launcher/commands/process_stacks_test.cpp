// The debuggers are scripts of these names.
#include "launcher/commands/process_stacks.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "agent/observe/process_condition.h"
#include "store/client/steady_time.h"
#include "tests/runtime/api/variable.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::launcher {
namespace {

TEST(ThreadsOfAProcess, HaveTheirNamesAndStates) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::array<int, 2> started{};
  ASSERT_EQ(pipe(started.data()), 0);
  pid_t tid = 0;
  std::thread waiting([&] {
    prctl(PR_SET_NAME, "a (b) c");
    tid = static_cast<pid_t>(syscall(SYS_gettid));
    char byte = 0;
    if (write(started[1], "x", 1) == 1) (void)!read(ends[0], &byte, 1);
  });
  char byte = 0;
  ASSERT_EQ(read(started[0], &byte, 1), 1);
  const auto is_asleep = [&](const ThreadDump& thread) { return thread.tid == tid && thread.state == 'S'; };
  std::vector<ThreadDump> threads = threads_of(getpid());
  while (std::none_of(threads.begin(), threads.end(), is_asleep)) threads = threads_of(getpid());
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[0].tid, getpid());
  EXPECT_EQ(threads[1].name, "a (b) c");
  EXPECT_NE(threads[1].waits_in, "0");
  close(ends[1]);
  waiting.join();
  for (const int fd : {ends[0], started[0], started[1]}) close(fd);
}

TEST(ThreadsOfAProcess, AProcessThatHasEndedHasNone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(threads_of(child).empty());
}

class RunDebugger : public testing::Test {
 protected:
  void install(const std::string& name, const std::string& script) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0755);
  }
  static DebuggerOutput run() { return run_debugger(getpid(), steady_now() + std::chrono::minutes(1)); }
  test::TemporaryFolder folder_;
  test::Variable path_{"PATH", folder_.path().c_str()};
};

TEST_F(RunDebugger, WithoutOneTheAdviceIsToInstallIt) {
  const DebuggerOutput output = run();
  EXPECT_EQ(output.debugger, "");
  EXPECT_EQ(output.text, "");
  EXPECT_NE(output.advice.find("gdb is not installed"), std::string::npos) << output.advice;
}

TEST_F(RunDebugger, GdbAttachesToTheProcessWithoutTheUsersSettings) {
  install("gdb", "echo \"$@\"");
  install("py-spy", "echo never");  // this program is not Python
  const DebuggerOutput output = run();
  EXPECT_EQ(output.debugger, "gdb");
  EXPECT_TRUE(output.text.starts_with("-nx -batch ")) << output.text;
  EXPECT_NE(output.text.find("-p " + std::to_string(getpid()) + " "), std::string::npos) << output.text;
}

TEST_F(RunDebugger, ADebuggerThatCannotBeRunIsNamed) {
  const std::string path = folder_.path() + "/gdb";
  std::ofstream(path) << "#!/no/such/interpreter\n";
  chmod(path.c_str(), 0755);
  EXPECT_TRUE(run().text.starts_with("cannot run " + path)) << run().text;
}

// As gdb does with each thread: it stops the process, and is killed before it lets it go.
TEST_F(RunDebugger, AKilledDebuggerLeavesNoProcessStopped) {
  install("gdb",
          "for word; do process=$last; last=$word; case $process in -p) kill -STOP $word;; esac; done\n"
          "trap '' TERM; while :; do :; done");
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  run_debugger(child, steady_now() + std::chrono::milliseconds(500));
  EXPECT_EQ(agent::condition_of(child), agent::Condition::runs);
  kill(child, SIGSTOP);
  while (agent::condition_of(child) != agent::Condition::stopped) std::this_thread::yield();
  run_debugger(child, steady_now() + std::chrono::milliseconds(500));
  EXPECT_EQ(agent::condition_of(child), agent::Condition::stopped) << "it was stopped before";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace dlaunch::launcher
