#include "launcher/console/await_readers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace dlaunch::launcher {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// A pipe with more in it, and behind it, than it takes.
class AwaitReadersTest : public testing::Test {
 protected:
  static constexpr std::size_t much = 4U << 20;  // more than a pipe can hold

  AwaitReadersTest() {
    std::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe(ends_.data()), 0);
    console_.emplace(ends_[1]);
    console_->write(std::string(much, 'x') + "\n");
    EXPECT_FALSE(console_->is_empty());
  }
  ~AwaitReadersTest() override {
    console_.reset();
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  void wait(const ReaderWait& how) {
    const std::array<agent::Console*, 1> consoles{&*console_};
    await_readers(consoles, how);
    EXPECT_TRUE(console_->is_empty());
  }
  [[nodiscard]] std::uint64_t dropped() const { return console_->dropped().bytes; }

  std::array<int, 2> ends_{-1, -1};  // to read, to write
  std::optional<agent::Console> console_;
};

TEST_F(AwaitReadersTest, AReaderThatReadsGetsAll) {
  std::size_t taken = 0;
  std::thread reader([&] {
    std::string bytes(1U << 16, ' ');
    while (taken <= much) {
      const ssize_t got = read(ends_[0], bytes.data(), bytes.size());
      if (got <= 0) return;
      taken += static_cast<std::size_t>(got);
    }
  });
  wait({hours(1), nullptr});
  reader.join();
  EXPECT_EQ(taken, much + 1);
  EXPECT_EQ(dropped(), 0U);
}

TEST_F(AwaitReadersTest, AReaderThatTakesNothingIsGivenUp) {
  wait({milliseconds(1), nullptr});
  EXPECT_GT(dropped(), 0U);
  EXPECT_LT(dropped(), much) << "the pipe holds the beginning";
}

TEST_F(AwaitReadersTest, AHurriedWaitEndsWithoutTheReader) {
  int asked = 0;
  wait({std::nullopt, [&] { return ++asked > 2; }});
  EXPECT_EQ(asked, 3) << "not again after it was hurried";
  EXPECT_GT(dropped(), 0U);
}

TEST_F(AwaitReadersTest, AReaderThatHasLeftIsNotAwaited) {
  close(std::exchange(ends_[0], -1));
  wait({std::nullopt, nullptr});
  EXPECT_EQ(dropped(), 0U) << "what has no reader is not lost by us";
}

}  // namespace
}  // namespace dlaunch::launcher
