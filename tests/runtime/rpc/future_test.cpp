// Values that come later, and chains.

#include "dlaunch/future.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace dlaunch {
namespace {

std::string error_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "none";
}

TEST(Future, HasTheValueOfItsPromise) {
  const Promise<int> promise;
  const Future<int> future = promise.future();
  EXPECT_FALSE(future.done());
  EXPECT_EQ(error_of(future.exception()), "none");
  promise.set_value(3);
  EXPECT_TRUE(future.done());
  EXPECT_EQ(future.wait(), 3);
  EXPECT_EQ(future.wait(), 3);
}

TEST(Future, ThrowsItsError) {
  const Promise<void> promise;
  promise.set_exception(std::make_exception_ptr(std::runtime_error("no")));
  EXPECT_THROW(promise.future().wait(), std::runtime_error);
  EXPECT_EQ(error_of(promise.future().exception()), "no");
}

TEST(Future, IsCompletedOnce) {
  const Promise<int> promise;
  promise.set_value(1);
  promise.set_value(2);
  promise.set_exception(std::make_exception_ptr(std::runtime_error("no")));
  EXPECT_EQ(promise.future().wait(), 1);
}

class Completes final : public future_detail::Helper {
 public:
  explicit Completes(Promise<int> promise) : promise_(std::move(promise)) {}
  void help(const future_detail::State& state, std::chrono::steady_clock::time_point) override {
    ++helped;
    EXPECT_FALSE(state.is_done());
    promise_.set_value(5);
  }
  int helped = 0;

 private:
  const Promise<int> promise_;
};

TEST(Future, AThreadThatWaitsGetsHelp) {
  const Promise<int> promise;
  const auto helper = std::make_shared<Completes>(promise);
  future_detail::State& state = future_detail::Access::state_of(promise);
  state.set_helper(helper);
  EXPECT_EQ(promise.future().wait(), 5);
  EXPECT_EQ(promise.future().wait(), 5);
  EXPECT_EQ(helper->helped, 1);
  state.set_helper(helper);  // too late
  EXPECT_EQ(helper.use_count(), 1);
}

TEST(Future, WakesThoseThatWait) {
  const Promise<std::string> promise;
  std::vector<std::thread> threads;
  std::atomic<int> seen = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, future = promise.future()] { seen += future.wait() == "v" ? 1 : 0; });
  }
  promise.set_value("v");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, 4);
}

TEST(Future, IsWaitedForWithALimit) {
  const Promise<int> promise;
  EXPECT_THROW(promise.future().wait(std::chrono::milliseconds(1)), DistNetworkError);
  promise.set_value(1);
  EXPECT_EQ(promise.future().wait(std::chrono::milliseconds(0)), 1);
}

TEST(Future, ChainsValuesAndErrors) {
  const Promise<int> promise;
  const Future<std::string> text =
      promise.future()
          .then([](const Future<int>& done) { return done.wait() + 1; })
          .then([](const Future<int>& done) { return std::to_string(done.wait()); });
  const Future<void> nothing = text.then([](const Future<std::string>&) {});
  const Future<int> failed =
      text.then([](const Future<std::string>&) -> int { throw std::runtime_error("in the chain"); });
  const Future<int> after = failed.then([](const Future<int>& done) { return done.wait(); });
  EXPECT_FALSE(text.done());
  promise.set_value(1);
  EXPECT_EQ(text.wait(), "2");
  nothing.wait();
  EXPECT_EQ(error_of(after.exception()), "in the chain");
}

TEST(Future, AChainThatIsAddedLateRunsAtOnce) {
  const Promise<int> promise;
  promise.set_value(1);
  EXPECT_TRUE(promise.future().then([](const Future<int>& done) { return done.wait(); }).done());
}

TEST(Future, AChainTakesTheValueOfAnInnerFuture) {
  const Promise<int> outer;
  const Promise<std::string> inner;
  const Future<std::string> both = outer.future().then([&](const Future<int>&) { return inner.future(); });
  outer.set_value(1);
  EXPECT_FALSE(both.done());
  inner.set_value("in");
  EXPECT_EQ(both.wait(), "in");
  const Future<std::string> thrown = outer.future().then(
      [](const Future<int>&) -> Future<std::string> { throw std::runtime_error("no inner one"); });
  EXPECT_EQ(error_of(thrown.exception()), "no inner one");
}

TEST(Future, CallbacksRunWhereThePromiseWants) {
  static std::vector<std::function<void()>> kept;
  const Promise<int> promise([](std::function<void()> callback) { kept.push_back(std::move(callback)); });
  const Future<int> chained = promise.future().then([](const Future<int>& done) { return done.wait(); });
  promise.set_value(5);
  EXPECT_TRUE(promise.future().done());
  EXPECT_FALSE(chained.done());
  ASSERT_EQ(kept.size(), 1U);
  kept[0]();
  EXPECT_EQ(chained.wait(), 5);
}

}  // namespace
}  // namespace dlaunch
