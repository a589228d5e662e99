// Each limit is lowered in a process of its own: it cannot be raised again.

#include "launcher/machine/process_limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/store/client/other_process.h"

namespace dlaunch::launcher {
namespace {

using test::OtherProcess;

void limit_files(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(2);
}

bool message_contains(const Result<void>& result, const std::string& part) {
  return !result.ok() && result.error().message().find(part) != std::string::npos;
}

TEST(ProcessLimits, EnoughDescriptorsAreNoError) {
  OtherProcess([](const std::string&) {
    limit_files(256, 256);
    return check_descriptor_limit(10, 2).ok();
  });
}

TEST(ProcessLimits, TooLowAHardLimitIsNamedBeforeAnythingStarts) {
  OtherProcess([](const std::string&) {
    limit_files(256, 256);
    const auto checked = check_descriptor_limit(1000, 1);
    return message_contains(checked, "cannot start 1000 workers") &&
           message_contains(checked, "but only 256 are allowed") &&
           message_contains(checked, "raise the hard limit (ulimit -Hn");
  });
}

TEST(ProcessLimits, EachHostNeedsThreeDescriptors) {
  OtherProcess([](const std::string&) {
    limit_files(256, 256);
    return check_descriptor_limit_for_hosts(50).ok() &&
           message_contains(check_descriptor_limit_for_hosts(100), "cannot start a job on 100 hosts: ");
  });
}

// dlaunch raises its own soft limit, but its helpers and workers have the one it was started with.
TEST(ProcessLimits, TooLowASoftLimitIsNamed) {
  OtherProcess([](const std::string&) {
    limit_files(16, 256);
    return message_contains(check_descriptor_limit(1, 1), "but only 16 are allowed; raise ulimit -n");
  });
}

TEST(ProcessLimits, TheSoftLimitIsRaisedToTheHardOne) {
  OtherProcess([](const std::string&) {
    limit_files(64, 256);
    raise_descriptor_limit();
    rlimit now{};
    return getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 256 && now.rlim_max == 256;
  });
}

TEST(ProcessLimits, MemoryIsTheMachinesOrTheLowerLimit) {
  EXPECT_GT(allowed_memory(), 0U);
  EXPECT_LE(usual_store_total(), allowed_memory() / 2);
  OtherProcess([](const std::string&) {
    constexpr rlim_t low = 64U << 20;
    const rlimit limit{low, low};
    return setrlimit(RLIMIT_DATA, &limit) == 0 && allowed_memory() == low && usual_store_total() == low / 2;
  });
}

TEST(ProcessLimits, APortLeavesDescriptorsForWorkersAndNodes) {
  OtherProcess([](const std::string&) {
    limit_files(1000, 1000);
    const PortLimits few = port_limits(1, 1);
    const PortLimits more = port_limits(11, 3);
    return more.reserved == few.reserved + 22 && port_limits(1000, 1).reserved == 250;
  });
}

TEST(ProcessLimits, AnOpenFileIsOneFreeDescriptorLess) {
  OtherProcess([](const std::string&) {
    limit_files(1000, 1000);
    const PortLimits limits = port_limits(1, 1);
    const std::size_t before = limits.free_descriptors();
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return file >= 0 && before > 0 && limits.free_descriptors() == before - 1;
  });
}

}  // namespace
}  // namespace dlaunch::launcher
