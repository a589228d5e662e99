#include "runtime/shared_memory/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dlaunch::internal {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;

// A control group's files, written by the test.
class MemoryLimit : public testing::Test {
 protected:
  void SetUp() override {
    here_ = std::filesystem::temp_directory_path() / ("memory_limit_test." + std::to_string(getpid()));
    places_ = {.proc = here_ / "proc", .cgroup = here_ / "cgroup"};
    write("proc/self/cgroup", "0::/job/worker\n");
    write("cgroup/job/worker/cgroup.procs", "");
  }
  void TearDown() override { std::filesystem::remove_all(here_); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((here_ / name).parent_path());
    std::ofstream(here_ / name) << text;
  }

  std::filesystem::path here_;
  MemoryLimitPlaces places_;
};

TEST_F(MemoryLimit, WhatFitsExactlyIsAllowed) {
  write("cgroup/job/worker/memory.max", "67108864\n");
  write("cgroup/job/worker/memory.current", "62914560\n");
  EXPECT_EQ(why_memory_does_not_fit(4 * mebibyte, places_), std::nullopt);
  EXPECT_EQ(why_memory_does_not_fit(4 * mebibyte + 1, places_),
            "memory.max of cgroup /job/worker is 64 MiB, of which 60 MiB are in use");
}

TEST_F(MemoryLimit, ThePageCacheDoesNotCount) {
  write("cgroup/job/worker/memory.max", "67108864\n");
  write("cgroup/job/worker/memory.current", "67108864\n");
  EXPECT_NE(why_memory_does_not_fit(mebibyte, places_), std::nullopt);
  write("cgroup/job/worker/memory.stat",
        "anon 1000\ninactive_file 1048576\nactive_file_x 7\nactive_file 1048576\n");
  EXPECT_EQ(why_memory_does_not_fit(2 * mebibyte, places_), std::nullopt);
  EXPECT_NE(why_memory_does_not_fit(2 * mebibyte + 1, places_), std::nullopt);
}

TEST_F(MemoryLimit, ALimitOfAParentCounts) {
  write("cgroup/job/worker/memory.max", "max\n");
  write("cgroup/job/worker/memory.current", "62914560\n");
  write("cgroup/job/memory.max", "67108864\n");
  write("cgroup/job/memory.current", "67108865\n");
  EXPECT_EQ(why_memory_does_not_fit(1, places_),
            "memory.max of cgroup /job is 64 MiB, of which 64 MiB are in use");
}

TEST_F(MemoryLimit, WithoutALimitEverythingFits) {
  EXPECT_EQ(why_memory_does_not_fit(~std::uint64_t{0}, places_), std::nullopt);
  EXPECT_EQ(why_memory_does_not_fit(~std::uint64_t{0}, {.proc = here_ / "nothing", .cgroup = here_}),
            std::nullopt);
}

}  // namespace
}  // namespace dlaunch::internal
