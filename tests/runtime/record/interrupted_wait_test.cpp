#include "runtime/record/interrupted_wait.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#if defined(__x86_64__)

namespace dlaunch::internal {
namespace {

using Code = std::array<std::uint8_t, call_code_size>;

// "mov NUMBER, eax", `between`, "syscall"
Code call(std::uint8_t number, const std::vector<std::uint8_t>& between = {}) {
  std::vector<std::uint8_t> bytes = {0xb8, number, 0, 0, 0};
  bytes.insert(bytes.end(), between.begin(), between.end());
  bytes.insert(bytes.end(), {0x0f, 0x05});
  Code code;
  code.fill(0x90);
  std::ranges::copy(bytes, code.end() - static_cast<std::ptrdiff_t>(bytes.size()));
  return code;
}

TEST(InterruptedWait, IsKnownByTheCodeBeforeIt) {
  EXPECT_EQ(waiting_call(call(7)), 7);                           // poll
  EXPECT_EQ(waiting_call(call(34)), 34);                         // pause
  EXPECT_EQ(waiting_call(call(34, {0x8b, 0x7c, 0x24, 4})), 34);  // "mov 4(rsp), edi" between
}

TEST(InterruptedWait, IsNotAnotherCall) {
  EXPECT_EQ(waiting_call(call(3)), std::nullopt);   // close: the descriptor may be another file by now
  EXPECT_EQ(waiting_call(call(42)), std::nullopt);  // connect: it goes on by itself
  Code no_call = call(7);
  no_call.back() = 0x06;
  EXPECT_EQ(waiting_call(no_call), std::nullopt);
  EXPECT_EQ(waiting_call(Code{}), std::nullopt);
}

#if !defined(__SANITIZE_THREAD__)  // which calls handlers later, with a copy of the registers

std::atomic<int> handled = 0;

void on_signal(int /*signo*/, siginfo_t* /*info*/, void* context) {
  ++handled;
  repeat_interrupted_wait(context);
}

// Whether `wait` is in its system call until `end` has been called, whatever signals come.
class InterruptedWaits : public ::testing::Test {
 protected:
  void SetUp() override {
    struct sigaction own {};
    own.sa_sigaction = on_signal;
    own.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&own.sa_mask);
    ASSERT_EQ(sigaction(SIGURG, &own, &before_), 0);
    ASSERT_EQ(pipe(pipe_.data()), 0);
  }
  void TearDown() override {
    sigaction(SIGURG, &before_, nullptr);
    close(pipe_[0]);
    close(pipe_[1]);
  }

  void expect_to_go_on(const std::function<int()>& wait) {
    std::atomic<bool> is_ready = false;
    std::atomic<bool> has_returned = false;
    int result = -1;
    std::thread waiting([&] {
      is_ready = true;
      result = wait();
      has_returned = true;
    });
    while (!is_ready) std::this_thread::yield();
    for (int i = 0; i < 20; ++i) {
      const int before = handled;
      pthread_kill(waiting.native_handle(), SIGURG);
      while (handled == before) std::this_thread::yield();
    }
    EXPECT_FALSE(has_returned);
    EXPECT_EQ(write(pipe_[1], "x", 1), 1);
    waiting.join();
    EXPECT_EQ(result, 1);
  }

  std::array<int, 2> pipe_{};

 private:
  struct sigaction before_ {};
};

TEST_F(InterruptedWaits, InPollGoOn) {
  expect_to_go_on([&] {
    pollfd one{pipe_[0], POLLIN, 0};
    return poll(&one, 1, -1);
  });
}

TEST_F(InterruptedWaits, InSelectGoOn) {
  expect_to_go_on([&] {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pipe_[0], &set);
    return select(pipe_[0] + 1, &set, nullptr, nullptr, nullptr);
  });
}

TEST_F(InterruptedWaits, InEpollGoOn) {
  expect_to_go_on([&] {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_[0], &event);
    const int found = epoll_wait(epoll, &event, 1, -1);
    close(epoll);
    return found;
  });
}

TEST_F(InterruptedWaits, ASleepLastsAsLongAsItWasToLast) {
  constexpr auto length = std::chrono::milliseconds(200);
  std::atomic<bool> is_ready = false;
  std::atomic<bool> has_ended = false;
  int result = -1;
  std::chrono::steady_clock::duration slept{};
  std::thread sleeping([&] {
    const auto begin = std::chrono::steady_clock::now();
    timespec left{0, std::chrono::nanoseconds(length).count()};
    is_ready = true;
    result = nanosleep(&left, &left);
    slept = std::chrono::steady_clock::now() - begin;
    has_ended = true;
  });
  while (!is_ready) std::this_thread::yield();
  while (!has_ended) {
    pthread_kill(sleeping.native_handle(), SIGURG);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  sleeping.join();
  EXPECT_EQ(result, 0);
  EXPECT_GE(slept, length);
}

#endif

}  // namespace
}  // namespace dlaunch::internal

#endif
