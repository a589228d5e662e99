// Several operations as one.

#include "runtime/group/when_all.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/debug.h"
#include "dlaunch/error.h"
#include "runtime/base/errors.h"
#include "tests/runtime/api/error_strings.h"

namespace dlaunch::internal {
namespace {

using test::error_of;

std::exception_ptr error(const std::string& text) { return std::make_exception_ptr(DistNetworkError(text)); }

std::vector<Work> works_of(const std::vector<WorkSource>& sources) {
  std::vector<Work> works;
  for (const WorkSource& source : sources) works.push_back(source.work());
  return works;
}

TEST(WhenAll, OfNothingHasSucceeded) { EXPECT_TRUE(when_all({}).is_success()); }

TEST(WhenAll, OrdersTheCallersStreamAfterAllOfThem) {
  int ordered = 0;
  const auto order = [&] {
    ++ordered;
    return true;
  };
  const std::vector<WorkSource> sources = {WorkSource(order), WorkSource(order)};
  const Work all = when_all(works_of(sources));
  all.wait();
  EXPECT_EQ(ordered, 2);
  EXPECT_FALSE(all.has_ended());
  for (const WorkSource& source : sources) source.succeed();
  EXPECT_TRUE(all.has_ended());
}

TEST(WhenAll, CompletesWithTheLastInAnyOrder) {
  const std::vector<WorkSource> sources(3);
  const Work all = when_all(works_of(sources));
  for (const int i : {2, 0, 1}) {
    EXPECT_FALSE(all.is_completed());
    sources[static_cast<std::size_t>(i)].succeed();
  }
  EXPECT_TRUE(all.is_success());
  all.wait();
}

TEST(WhenAll, OfCompletedOnesHasCompleted) {
  const std::vector<WorkSource> sources(2);
  sources[0].succeed();
  sources[1].fail(error("lost"));
  EXPECT_EQ(error_of([&] { when_all(works_of(sources)).wait(); }), "lost");
  EXPECT_TRUE(when_all(std::vector<Work>(2)).is_success());
}

// By its place in the list and not in time; the memory of the others may still be in use before.
TEST(WhenAll, HasTheErrorOfTheFirstInTheListWhenAllHaveEnded) {
  const std::vector<WorkSource> sources(3);
  const Work all = when_all(works_of(sources));
  sources[2].fail(error("the earliest"));
  sources[1].fail(error("the first"));
  EXPECT_FALSE(all.is_completed());
  sources[0].succeed();
  EXPECT_EQ(error_of([&] { all.wait(); }), "the first");
}

// Those that are not reported count as seen.
TEST(WhenAll, OneErrorOfSeveralIsLoggedIfNobodyWaits) {
  std::vector<std::string> warnings;
  set_log_handler([&](LogLevel, const std::string& message) { warnings.push_back(message); });
  {
    const std::vector<WorkSource> sources(3);
    (void)when_all(works_of(sources));
    for (const WorkSource& source : sources) source.fail(error("lost"));
  }
  set_log_handler(nullptr);
  EXPECT_EQ(warnings, std::vector<std::string>{"an operation failed and no call waited for it: lost"});
}

TEST(WhenAll, OperationsMayEndOnSeveralThreads) {
  for (int round = 0; round < 200; ++round) {
    const std::vector<WorkSource> sources(4);
    const Work all = when_all(works_of(sources));
    std::vector<std::thread> threads;
    for (const WorkSource& source : sources) threads.emplace_back([&source] { source.succeed(); });
    all.wait();
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(all.is_success());
  }
}

TEST(WaitAll, WaitsForAllAndThrowsNothing) {
  const std::vector<WorkSource> sources(3);
  sources[0].fail(error("lost"));
  std::thread other([&] {
    sources[2].fail(error("lost"));
    sources[1].succeed();
  });
  wait_all_noexcept(works_of(sources));
  for (const WorkSource& source : sources) EXPECT_TRUE(source.work().is_completed());
  other.join();
}

}  // namespace
}  // namespace dlaunch::internal
