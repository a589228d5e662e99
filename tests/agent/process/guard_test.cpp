// The agent's side: this process is the agent, and one of its children is the keeper.

#include "agent/process/guard.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "agent/platform/reaper.h"
#include "store/loop/uv_loop.h"

namespace dlaunch::agent {
namespace {

class GuardTest : public testing::Test, public TimerHandler {
 public:
  GuardTest() : before_(children_of(getpid())) {
    keeper_ = fork();
    if (keeper_ == 0) {
      while (true) pause();
    }
    guard_.emplace(Guard::Dependencies{poller_, loop_, loop_,
                                       [this](const std::string& sentence) {
                                         warnings_.push_back(sentence);
                                         loop_.stop();
                                       }},
                   keeper_, JobResources{}, name_in(area_.data(), area_.size(), "dl-guard"));
    loop_.arm(loop_.now() + std::chrono::seconds(60), *this);
  }
  ~GuardTest() override {
    guard_.reset();
    end_keeper();
    EXPECT_EQ(children_of(getpid()), before_) << "a guard ends with the agent's Guard";
  }
  void end_keeper() {
    if (keeper_ < 0) return;
    kill(keeper_, SIGKILL);
    EXPECT_EQ(waitpid(keeper_, nullptr, 0), keeper_);
    keeper_ = -1;
  }
  // The guard that runs; -1 if there is none.
  [[nodiscard]] pid_t guard_pid() const {
    std::vector<pid_t> found = children_of(getpid());
    std::erase(found, keeper_);
    for (const pid_t other : before_) std::erase(found, other);
    return found.size() == 1 ? found.front() : -1;
  }
  static std::string dl_guard(pid_t pid) { return "dl-guard (pid " + std::to_string(pid) + ")"; }
  void on_timer(TimerId) override {
    ADD_FAILURE() << "nothing has happened in 60 s";
    loop_.stop();
  }

  UvLoop loop_;
  UvPoller poller_{loop_};
  std::array<char, 40> area_{};
  pid_t keeper_ = -1;
  std::vector<pid_t> before_;  // this process's other children
  std::vector<std::string> warnings_;
  std::optional<Guard> guard_;
};

TEST_F(GuardTest, AKilledGuardIsReportedAndReplaced) {
  guard_->begin(Duration(0));
  const pid_t first = guard_pid();
  ASSERT_GT(first, 0);
  kill(first, SIGKILL);
  loop_.run();
  waitpid(first, nullptr,
          0);  // unless the Guard has done so: its socket closes a moment before it can be reaped
  const pid_t second = guard_pid();
  EXPECT_GT(second, 0);
  EXPECT_EQ(warnings_,
            std::vector<std::string>{dl_guard(first) + " was killed; " + dl_guard(second) + " replaces it"});
}

TEST_F(GuardTest, StartsAfterTheJobHasBegun) {
  guard_->begin(std::chrono::milliseconds(1));
  EXPECT_EQ(guard_pid(), -1);
  struct Look final : TimerHandler {
    explicit Look(GuardTest& owner) : test(owner) {}
    void on_timer(TimerId) override {
      if (test.guard_pid() > 0) return test.loop_.stop();
      test.loop_.arm(test.loop_.now() + std::chrono::milliseconds(1), *this);
    }
    GuardTest& test;
  } look(*this);
  loop_.arm(loop_.now(), look);
  loop_.run();
  EXPECT_GT(guard_pid(), 0);
  EXPECT_FALSE(guard_->is_above_keeper());
}

// It is the keeper's parent, and ends with the job by itself.
TEST_F(GuardTest, AGuardThatWasTakenOverIsNotKilled) {
  std::array<int, 2> life{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life.data()), 0);
  const pid_t above = fork();
  if (above == 0) {
    close(life[0]);
    char byte = 0;
    _exit(read(life[1], &byte, 1) == 0 ? 7 : 1);  // until the agent has ended
  }
  close(life[1]);
  guard_->take_over(above, life[0]);
  EXPECT_TRUE(guard_->is_above_keeper());
  guard_.reset();
  int status = 0;
  EXPECT_EQ(waitpid(above, &status, 0), above);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST_F(GuardTest, NoGuardFollowsOneThatEndedWithTheKeeper) {
  std::array<int, 2> life{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life.data()), 0);
  const pid_t above = fork();
  if (above == 0) _exit(0);
  guard_->take_over(above, life[0]);
  end_keeper();
  EXPECT_EQ(waitpid(above, nullptr, 0), above);
  close(life[1]);  // what the agent sees of the guard's end
  guard_->on_readable(life[0]);
  EXPECT_FALSE(guard_->is_above_keeper());
  EXPECT_EQ(children_of(getpid()), before_);
  EXPECT_EQ(warnings_, std::vector<std::string>{});
}

}  // namespace
}  // namespace dlaunch::agent
