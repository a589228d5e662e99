// The name of a backend as a type.

#include "dlaunch/backend_name.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "dlaunch/distributed.h"
#include "dlaunch/threads.h"
#include "tests/runtime/api/error_strings.h"

namespace dlaunch::internal {
namespace {

using test::error_contains;

TEST(BackendName, ParsesAndLowersItsText) {
  EXPECT_EQ(BackendName("GLOO"), BackendName::gloo);
  EXPECT_EQ(BackendName("GLOO"), "gloo");
  EXPECT_EQ(BackendName("Nccl").str(), "nccl");
  EXPECT_EQ(BackendName("mpi"), BackendName::mpi);
  EXPECT_EQ(BackendName("UCC"), std::string("ucc"));
  EXPECT_EQ(BackendName::undefined, std::string_view("undefined"));
  EXPECT_EQ(BackendName("threads"), "threads");  // one that the process knows
  EXPECT_EQ(BackendName("CPU:Gloo,cuda:NCCL"), "cpu:gloo,cuda:nccl");
  EXPECT_NE(BackendName("gloo"), BackendName::nccl);
}

TEST(BackendName, WhatIsNoNameIsAnError) {
  const auto refused = [](const char* text, const char* why) {
    return error_contains([&] { (void)BackendName(text); }, why);
  };
  EXPECT_TRUE(refused("smoke", "unknown backend 'smoke'"));
  EXPECT_TRUE(refused("", "cannot read backend ''"));
  EXPECT_TRUE(refused("cpu:gloo:x", "cannot read backend 'cpu:gloo:x'"));
  EXPECT_TRUE(refused("tpu:gloo", "unknown device 'tpu'"));
  EXPECT_THROW((void)BackendName("smoke"), DistBackendError);
}

TEST(BackendName, IsTakenWhereverANameIs) {
  run_ranks_as_threads(2, [](int) {
    InitOptions options;
    options.backend = BackendName("THREADS");
    init_process_group(options);
    EXPECT_EQ(get_backend(), BackendName("threads"));
    const ProcessGroup group = new_group({}, {.backend = BackendName("Threads")});
    EXPECT_TRUE(get_backend(group) == BackendName("threads"));
    EXPECT_FALSE(is_backend_available(BackendName::undefined));
    destroy_process_group();
  });
}

}  // namespace
}  // namespace dlaunch::internal
