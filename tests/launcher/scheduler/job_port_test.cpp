#include "launcher/scheduler/job_port.h"

#include <gtest/gtest.h>

#include <set>

namespace dlaunch::launcher {
namespace {

TEST(JobPort, IsBelowTheKernelsOwnChoicesForAnyJob) {
  for (const std::uint64_t job :
       {std::uint64_t{0}, std::uint64_t{11'999}, std::uint64_t{12'000}, UINT64_MAX}) {
    EXPECT_GE(port_for(job), 20'000) << job;
    EXPECT_LT(port_for(job), 32'768) << job << ": Linux begins its ephemeral ports there";
  }
}

TEST(JobPort, JobsThatFollowEachOtherHaveDifferentPorts) {
  std::set<std::uint16_t> ports;
  for (std::uint64_t job = 0; job < 12'000; ++job) ports.insert(port_for(job));
  EXPECT_EQ(ports.size(), 12'000U);
}

}  // namespace
}  // namespace dlaunch::launcher
