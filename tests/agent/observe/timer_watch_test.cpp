#include "agent/observe/timer_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "store/loop/uv_loop.h"

namespace dlaunch::agent {
namespace {

// This process is the keeper, and its child a worker, which runs until it gets a signal.
class TimerWatchTest : public testing::Test, public TimerHandler {
 protected:
  TimerWatchTest() {
    EXPECT_EQ(pipe2(fifo_.data(), O_CLOEXEC | O_NONBLOCK), 0);
    worker_ = fork();
    if (worker_ == 0) {
      while (true) pause();
    }
    status_.round = 3;
    status_.workers = {{4, 1, worker_, "running", ""}};
    TimerWatch::Config config;
    config.fifo = fifo_[0];
    config.keeper = [this] { return keeper_; };
    config.status = [this] { return status_; };
    config.on_log = [this](const LogMessage& message) {
      log_.push_back(message.text);
      loop_.stop();
    };
    watch_.emplace(TimerWatch::Dependencies{poller_, loop_, loop_}, config);
    loop_.arm(loop_.now() + std::chrono::seconds(60), *this);
  }
  ~TimerWatchTest() override {
    watch_.reset();
    kill(worker_, SIGKILL);
    end_of_worker();
    for (const int end : fifo_) close(end);
  }
  // The signal that ended it.
  int end_of_worker() {
    if (ended_) return 0;
    ended_ = true;
    int status = 0;
    EXPECT_EQ(waitpid(worker_, &status, 0), worker_);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  [[nodiscard]] bool worker_runs() const { return waitpid(worker_, nullptr, WNOHANG) == 0; }

  void write_line(const std::string& line) {
    const std::string text = line + "\n";
    EXPECT_EQ(write(fifo_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // `expires`: in seconds of the wall clock; below 0: releases the timer.
  void request(const std::string& scope, double expires, int signo) {
    write_line(R"({"version": 1, "pid": )" + std::to_string(worker_) + R"(, "scope_id": ")" + scope +
               R"(", "expiration_time": )" + std::to_string(expires) + R"(, "signal": )" +
               std::to_string(signo) + "}");
  }
  void on_timer(TimerId) override {
    ADD_FAILURE() << "nothing was logged in 60 s";
    loop_.stop();
  }
  [[nodiscard]] std::string pid() const { return std::to_string(worker_); }

  static constexpr double long_ago = 1;
  UvLoop loop_;
  UvPoller poller_{loop_};
  std::array<int, 2> fifo_{};
  pid_t keeper_ = getpid();
  pid_t worker_ = -1;
  bool ended_ = false;
  JobStatus status_;
  std::vector<std::string> log_;
  std::optional<TimerWatch> watch_;
};

TEST_F(TimerWatchTest, AnExpiredTimerEndsItsWorker) {
  request("train.py#12", long_ago, SIGTERM);
  loop_.run();
  EXPECT_EQ(log_, std::vector<std::string>{"timer 'train.py#12' of rank 4 (pid " + pid() +
                                           ") has expired: SIGTERM was sent"});
  EXPECT_EQ(end_of_worker(), SIGTERM);
  const auto sent = watch_->sent_to({3, 1});
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->signo, SIGTERM);
  EXPECT_EQ(sent->why, "its timer 'train.py#12' expired");
  EXPECT_FALSE(watch_->sent_to({3, 0}));
}

TEST_F(TimerWatchTest, AReleasedTimerDoesNotExpire) {
  request("released", long_ago, SIGKILL);
  request("released", -1, 0);
  request("kept", long_ago, 0);  // asks for a report alone
  loop_.run();
  ASSERT_EQ(log_.size(), 1U);
  EXPECT_TRUE(log_[0].starts_with("timer 'kept' of process " + pid())) << log_[0];
  EXPECT_TRUE(log_[0].ends_with("has expired; it asks for no signal")) << log_[0];
  EXPECT_TRUE(worker_runs());
}

TEST_F(TimerWatchTest, AProcessThatIsNotOfThisJobGetsNoSignal) {
  keeper_ = worker_;  // which has no descendants
  request("x", long_ago, SIGKILL);
  loop_.run();
  ASSERT_EQ(log_.size(), 1U);
  EXPECT_TRUE(
      log_[0].ends_with("has expired, but the process does not belong to this job: no signal was sent"))
      << log_[0];
  EXPECT_TRUE(worker_runs());
}

TEST_F(TimerWatchTest, ADescendantOfAWorkerIsNoWorker) {
  status_.workers.clear();
  request("x", long_ago, SIGTERM);
  loop_.run();
  ASSERT_EQ(log_.size(), 1U);
  EXPECT_TRUE(log_[0].ends_with(", a descendant of a worker, has expired: SIGTERM was sent")) << log_[0];
  EXPECT_EQ(end_of_worker(), SIGTERM);
  EXPECT_FALSE(watch_->sent_to({3, 1}));
}

TEST_F(TimerWatchTest, AMalformedRequestIsLogged) {
  write_line("no timer");
  loop_.run();
  ASSERT_EQ(log_.size(), 1U);
  EXPECT_NE(log_[0].find("no timer"), std::string::npos) << log_[0];
  EXPECT_TRUE(worker_runs());
}

}  // namespace
}  // namespace dlaunch::agent
