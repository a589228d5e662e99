// The lifeline over a real pipe, with timers that fire only on request.

#include "launcher/remote/lifeline.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "store/loop/uv_loop.h"

namespace dlaunch::launcher {
namespace {

class ByHand final : public Clock, public Timers {
 public:
  TimePoint now() const override { return now_; }
  TimerId arm(TimePoint at, TimerHandler& handler) override {
    at_ = at;
    handler_ = &handler;
    return {0, ++generation_};
  }
  void disarm(TimerId timer) override {
    if (timer.generation == generation_) handler_ = nullptr;
  }
  void pass(Duration time) {
    now_ += time;
    if (handler_ && now_ >= at_) std::exchange(handler_, nullptr)->on_timer({0, generation_});
  }

 private:
  TimePoint now_{std::chrono::seconds(1)};
  TimePoint at_;
  TimerHandler* handler_ = nullptr;
  std::uint32_t generation_ = 0;
};

struct Pipe {
  Pipe() { EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0); }
  int ends[2] = {-1, -1};
};

class LifelineTest : public ::testing::Test {
 protected:
  ~LifelineTest() override { disconnect(); }

  void say(std::string_view text) {
    ASSERT_EQ(write(pipe_.ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    lifeline_.on_readable(pipe_.ends[0]);
  }
  void disconnect() {
    if (pipe_.ends[1] >= 0) close(pipe_.ends[1]);
    pipe_.ends[1] = -1;
  }

  Pipe pipe_;  // whose reading end the lifeline closes
  UvLoop loop_;
  UvPoller poller_{loop_};
  ByHand time_;
  std::vector<int> signals_;
  std::vector<std::string> losses_;
  Lifeline lifeline_{poller_,
                     time_,
                     time_,
                     pipe_.ends[0],
                     {[this](int signo) { signals_.push_back(signo); },
                      [this](const std::string& why) { losses_.push_back(why); }}};
};

TEST_F(LifelineTest, SignalsArePassedOn) {
  say("alive\nsignal 15\nsig");
  say("nal 10\n");
  EXPECT_EQ(signals_, (std::vector<int>{SIGTERM, SIGUSR1}));
  EXPECT_TRUE(losses_.empty());
  EXPECT_FALSE(lifeline_.lost());
}

TEST_F(LifelineTest, ItsEndIsALoss) {
  say("alive\n");
  disconnect();
  lifeline_.on_readable(pipe_.ends[0]);
  ASSERT_EQ(losses_.size(), 1U);
  EXPECT_TRUE(lifeline_.lost());
  time_.pass(2 * silence_limit);
  EXPECT_EQ(losses_.size(), 1U);
}

TEST_F(LifelineTest, SilenceIsALossAndSignsOfLifeAreNone) {
  for (int i = 0; i < 20; ++i) {
    time_.pass(silence_limit - std::chrono::milliseconds(1));
    say(alive_line);
  }
  EXPECT_TRUE(losses_.empty());
  time_.pass(silence_limit);
  ASSERT_EQ(losses_.size(), 1U);
  EXPECT_NE(losses_[0].find("it was silent for 1 min 0 s"), std::string::npos) << losses_[0];
}

}  // namespace
}  // namespace dlaunch::launcher
