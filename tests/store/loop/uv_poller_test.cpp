#include "store/loop/uv_poller.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dlaunch::store {
namespace {

struct Handler final : FdHandler {
  void on_readable(int fd) override {
    events += 'r';
    if (readable) readable(fd);
  }
  void on_writable(int fd) override {
    events += 'w';
    if (writable) writable(fd);
  }
  std::string events;
  std::function<void(int)> readable;
  std::function<void(int)> writable;
};

struct Stop final : TimerHandler {
  explicit Stop(UvLoop& running) : loop(running) {}
  void on_timer(TimerId) override { loop.stop(); }
  UvLoop& loop;
};

class UvPollerTest : public testing::Test {
 protected:
  UvPollerTest() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~UvPollerTest() override {
    poller_.reset();
    for (const int fd : ends_) {
      if (fd >= 0) close(fd);
    }
  }
  void write_byte() { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void read_byte() {
    char byte = 0;
    EXPECT_EQ(read(ends_[0], &byte, 1), 1);
  }
  // All that is ready now is reported.
  void turn() {
    loop_.arm(loop_.now(), stop_);
    loop_.run();
  }

  std::array<int, 2> ends_{-1, -1};  // to read, to write
  UvLoop loop_;
  Stop stop_{loop_};
  Handler handler_;
  std::optional<UvPoller> poller_{std::in_place, loop_};
};

TEST_F(UvPollerTest, ReportsAgainUntilTheBytesAreRead) {
  poller_->watch(ends_[0], true, false, handler_);
  turn();
  EXPECT_EQ(handler_.events, "");
  write_byte();
  int calls = 0;
  handler_.readable = [&](int fd) {
    EXPECT_EQ(fd, ends_[0]);
    if (++calls == 3) {
      read_byte();
      loop_.stop();
    }
  };
  loop_.run();
  EXPECT_EQ(handler_.events, "rrr");
  turn();
  EXPECT_EQ(handler_.events, "rrr") << "nothing is left";
}

TEST_F(UvPollerTest, TheEndOfAPipeIsReadable) {
  poller_->watch(ends_[0], true, false, handler_);
  close(std::exchange(ends_[1], -1));
  handler_.readable = [&](int fd) {
    poller_->unwatch(fd);
    loop_.stop();
  };
  loop_.run();
  EXPECT_EQ(handler_.events, "r");
}

TEST_F(UvPollerTest, OnlyTheRequestedEventsAreReported) {
  poller_->watch(ends_[1], false, true, handler_);
  handler_.writable = [&](int) { loop_.stop(); };
  loop_.run();
  EXPECT_EQ(handler_.events, "w");
  poller_->watch(ends_[1], false, false, handler_);
  turn();
  EXPECT_EQ(handler_.events, "w") << "no events: as unwatch";
}

TEST_F(UvPollerTest, AnotherHandlerMayTakeOver) {
  Handler other;
  write_byte();
  poller_->watch(ends_[0], true, false, handler_);
  poller_->watch(ends_[0], true, false, other);
  other.readable = [&](int) { loop_.stop(); };
  loop_.run();
  EXPECT_EQ(handler_.events, "");
  EXPECT_EQ(other.events, "r");
}

TEST_F(UvPollerTest, AHandlerMayStopWatching) {
  write_byte();
  poller_->watch(ends_[0], true, false, handler_);
  handler_.readable = [&](int fd) {
    poller_->unwatch(fd);
    poller_->unwatch(fd);
    loop_.stop();
  };
  loop_.run();
  turn();
  EXPECT_EQ(handler_.events, "r");
}

TEST_F(UvPollerTest, ASignalCallsItsLatestHandler) {
  std::vector<int> first;
  std::vector<int> second;
  poller_->on_signal(SIGUSR1, [&](int signo) { first.push_back(signo); });
  poller_->on_signal(SIGUSR1, [&](int signo) {
    second.push_back(signo);
    loop_.stop();
  });
  // A signal alone does not keep the loop running.
  Stop late(loop_);
  loop_.arm(loop_.now() + std::chrono::minutes(1), late);
  kill(getpid(), SIGUSR1);
  loop_.run();
  EXPECT_TRUE(first.empty());
  EXPECT_EQ(second, std::vector{SIGUSR1});
}

TEST_F(UvPollerTest, AfterItsEndASignalHasItsDefaultAction) {
  poller_->on_signal(SIGUSR2, [](int) {});
  poller_.reset();
  turn();  // closes what it held
  struct sigaction now {};
  sigaction(SIGUSR2, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace dlaunch::store
