// A forked process crashes; its page shows how.
#include "runtime/record/crash_recorder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "agent/model/worker_record.h"
#include "agent/observe/crash_report.h"
#include "runtime/record/recorder.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::internal {

// With external linkage, so that each has a name.
[[gnu::noinline]] void write_to_null() {
  int* volatile nowhere = nullptr;
  *nowhere = 1;
}
[[gnu::noinline]] void throw_out_of_memory() { throw std::runtime_error("no memory"); }

[[gnu::noinline]] void wait_for_data() {
  for (;;) pause();
}

namespace {

TimePoint steady_clock_now() {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

bool has_wait_for_data(const std::optional<agent::Crash>& stack) {
  return stack && std::ranges::any_of(stack->frames, [](const agent::CrashFrame& frame) {
           return frame.function == "dlaunch::internal::wait_for_data()";
         });
}

class CrashRecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizers handle these signals themselves";
#endif
  }
  // How the child ended.
  int run(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      for (const int signo : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) (void)std::signal(signo, SIG_DFL);
      recorder_.open(path_, 0, 2);
      record_crashes(recorder_.page());
      body();
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }
  agent::Crash crash() {
    auto seen = agent::read_crash(path_);
    EXPECT_TRUE(seen);
    return seen.value_or(agent::Crash{});
  }

  test::TemporaryFolder folder_;
  std::string path_ = agent::worker_page_path(folder_.path(), 0, 0);
  Recorder recorder_;
};

TEST_F(CrashRecorderTest, AFault) {
  EXPECT_EQ(WTERMSIG(run(write_to_null)), SIGSEGV);
  EXPECT_EQ(crash().signal, SIGSEGV);
  EXPECT_EQ(crash().address, 0U);
  ASSERT_FALSE(crash().frames.empty());
  EXPECT_EQ(crash().frames[0].function, "dlaunch::internal::write_to_null()");
}

TEST_F(CrashRecorderTest, AFaultOfAnotherThread) {
  EXPECT_EQ(WTERMSIG(run([] { std::thread(write_to_null).join(); })), SIGSEGV);
  ASSERT_FALSE(crash().frames.empty());
  EXPECT_EQ(crash().frames[0].function, "dlaunch::internal::write_to_null()");
}

TEST_F(CrashRecorderTest, AnExceptionThatNobodyCatches) {
  EXPECT_EQ(WTERMSIG(run([]() noexcept { throw_out_of_memory(); })), SIGABRT);
  EXPECT_EQ(crash().what, "std::runtime_error: no memory");
  EXPECT_NE(agent::cause_of(crash()).find("thrown in dlaunch::internal::throw_out_of_memory()"),
            std::string::npos)
      << agent::cause_of(crash());
}

TEST_F(CrashRecorderTest, ASignalThatIsSent) {
  EXPECT_EQ(WTERMSIG(run([] {
              kill(getpid(), SIGFPE);
              pause();
            })),
            SIGFPE);
  EXPECT_LE(crash().code, 0);
  EXPECT_TRUE(agent::cause_of(crash()).starts_with("raised by the process itself, in "));
}

TEST_F(CrashRecorderTest, AForkedChildRecordsNothing) {
  EXPECT_EQ(run([] {
              const pid_t child = fork();
              if (child == 0) write_to_null();
              int status = 0;
              waitpid(child, &status, 0);
              _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? 0 : 1);
            }),
            0);
  EXPECT_FALSE(agent::read_crash(path_));
}

// The agent's request, while the process waits in wait_for_data().
TEST_F(CrashRecorderTest, TheStackOfAProcessThatLives) {
  const TimePoint began = steady_clock_now();
  const pid_t child = fork();
  if (child == 0) {
    (void)std::signal(SIGURG, SIG_DFL);
    recorder_.open(path_, 0, 2);
    record_crashes(recorder_.page());
    wait_for_data();
    _exit(0);
  }
  std::optional<agent::Crash> stack;
  const TimePoint limit = began + std::chrono::seconds(60);
  while (!has_wait_for_data(stack) && steady_clock_now() < limit) {
    agent::request_stack(path_);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stack = agent::read_stack(path_, began);
  }
  EXPECT_TRUE(has_wait_for_data(stack)) << (stack ? agent::stack_of(*stack) : "no stack");
  EXPECT_FALSE(agent::read_stack(path_, steady_clock_now() + std::chrono::seconds(1))) << "too old";
  EXPECT_FALSE(agent::read_crash(path_));
  kill(child, SIGSEGV);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_EQ(crash().signal, SIGSEGV) << "a crash replaces the stack";
}

// Its handler of SIGURG is another's business.
TEST_F(CrashRecorderTest, AProgramThatUsesTheSignalIsNotDisturbed) {
  EXPECT_EQ(run([this] {
              (void)std::signal(SIGURG, [](int) { _exit(7); });
              Recorder second;
              const std::string path = agent::worker_page_path(folder_.path(), 0, 1);
              second.open(path, 1, 2);
              agent::request_stack(path);
            }),
            0);
}

TEST_F(CrashRecorderTest, AnEndWithoutACrash) {
  EXPECT_EQ(run([] {}), 0);
  EXPECT_FALSE(agent::read_crash(path_));
}

}  // namespace
}  // namespace dlaunch::internal
