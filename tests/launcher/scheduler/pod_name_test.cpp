#include "launcher/scheduler/pod_name.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

const std::string hosts =
    "127.0.0.1 localhost\n# 10.1.2.3 train-3.no train-3\n::1\tlocalhost ip6-localhost\n"
    "10.1.2.3\ttrain-3.workers.ns.svc.cluster.local\ttrain-3";
const std::string full = "train-3.workers.ns.svc.cluster.local";

TEST(PodName, IsTheFirstOfTheLineWithTheHost) {
  EXPECT_EQ(full_name(hosts, "train-3"), full);
  EXPECT_EQ(full_name(hosts, "train-4"), "train-4") << "the file does not have it";
  EXPECT_EQ(full_name("", "train-3"), "train-3");
  EXPECT_EQ(full_name("10.1.2.3 train-3\n", "train-3"), "train-3") << "without a subdomain";
}

TEST(PodName, MayBeWrittenWithoutItsEnd) {
  for (const char* name :
       {"train-3.workers", "train-3.workers.ns", "train-3.workers.ns.svc",
        "train-3.workers.ns.svc.cluster.local", "Train-3.Workers", "train-3.workers.ns.svc.cluster.local."})
    EXPECT_TRUE(names_pod(name, full)) << name;
  for (const char* name :
       {"", ".", "train-3", "train-3.work", "train-3.workers.other", "train-33.workers", "rain-3.workers",
        "workers.ns.svc.cluster.local", "train-3.workers.ns.svc.cluster.local.x"})
    EXPECT_FALSE(names_pod(name, full)) << name;
  EXPECT_FALSE(names_pod("train-3.workers", "")) << "this is no pod";
  EXPECT_FALSE(names_pod("train-3.workers", "train-3")) << "a pod without a subdomain";
}

}  // namespace
}  // namespace dlaunch::launcher
