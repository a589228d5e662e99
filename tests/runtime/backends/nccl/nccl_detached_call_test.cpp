#include "runtime/backends/nccl/nccl_detached_call.h"

#include <gtest/gtest.h>

#include <future>

namespace dlaunch::internal {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds long_time(60'000);

TEST(NcclDetachedCall, HasTheResultOfTheCall) {
  NcclDetachedCall call([] { return ncclInvalidUsage; });
  ASSERT_TRUE(call.wait_for(long_time));
  EXPECT_EQ(call.result(), ncclInvalidUsage);
}

TEST(NcclDetachedCall, CanBeLeftBehind) {
  const auto may_return = std::make_shared<std::promise<void>>();
  const auto abandoned = std::make_shared<std::promise<ncclResult_t>>();
  {
    NcclDetachedCall call(
        [may_return] {
          may_return->get_future().wait();
          return ncclSystemError;
        },
        [abandoned](ncclResult_t result) { abandoned->set_value(result); });
    EXPECT_FALSE(call.wait_for(milliseconds(1)));
  }
  may_return->set_value();
  EXPECT_EQ(abandoned->get_future().get(), ncclSystemError);
}

}  // namespace
}  // namespace dlaunch::internal
