#include "runtime/rpc/call_context.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "dlaunch/future.h"

namespace dlaunch::internal {
namespace {

using rpc::rpc_detail::call_context;
using rpc::rpc_detail::CallContextScope;

TEST(CallContext, EndsWithItsScope) {
  EXPECT_EQ(call_context(), 0U);
  {
    const CallContextScope outer(7);
    {
      const CallContextScope inner(8);
      EXPECT_EQ(call_context(), 8U);
    }
    EXPECT_EQ(call_context(), 7U);
  }
  EXPECT_EQ(call_context(), 0U);
}

TEST(CallContext, ACallbackHasThatOfItsThen) {
  const Promise<int> promise;
  Future<std::uint64_t> seen;
  Future<std::uint64_t> none = promise.future().then([](const Future<int>&) { return call_context(); });
  {
    const CallContextScope scope(7);
    seen = promise.future().then([](const Future<int>&) { return call_context(); });
  }
  const CallContextScope other(9);
  promise.set_value(1);
  EXPECT_EQ(seen.wait(), 7U);
  EXPECT_EQ(none.wait(), 9U);  // of the thread that completes the future
  EXPECT_EQ(call_context(), 9U);
}

std::vector<std::pair<std::uint64_t, int>> met;

TEST(CallContext, OnlyCallsUnderOneAreReported) {
  rpc::rpc_detail::on_meeting_in_context(
      [](std::uint64_t context, int worker) { met.emplace_back(context, worker); });
  meet_in_context(0, 3);
  meet_in_context(7, 3);
  rpc::rpc_detail::on_meeting_in_context(nullptr);
  meet_in_context(7, 4);
  EXPECT_EQ(met, (std::vector<std::pair<std::uint64_t, int>>{{7, 3}}));
}

}  // namespace
}  // namespace dlaunch::internal
