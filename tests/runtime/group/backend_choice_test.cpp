// From the name of a backend to modules, and from modules to the backends of a group.

#include "runtime/group/backend_choice.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/errors.h"
#include "runtime/rendezvous/bootstrap.h"
#include "store/client/hash_store.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::contains;
using test::error_of;
using test::soon;

class Named final : public Backend {
 public:
  void abort(const std::string& /*reason*/) noexcept override {}
  void shutdown() noexcept override {}
};

bool works(std::string& /*reason*/) { return true; }
bool is_broken(std::string& reason) {
  reason = "there is no GPU";
  return false;
}
// Shows what it was made from.
std::unique_ptr<Backend> create(const BackendContext& context) {
  context.store.set("rank", std::to_string(context.rank) + " of " + std::to_string(context.size));
  return std::make_unique<Named>();
}
std::unique_ptr<Backend> fail_for_peer(const BackendContext& /*context*/) {
  throw DistNetworkError("it cannot be reached", {.peer = 1});
}

const BackendModule on_cpu{backend_abi_version, "Soft", "cpu", works, create};
const BackendModule on_gpu{backend_abi_version, "hard", "cuda", works, create};
const BackendModule on_both{backend_abi_version, "both", "cpu,cuda", works, create};
const BackendModule broken{backend_abi_version, "broken", "cuda", is_broken, create};
// Reports which control plane it was given.
std::unique_ptr<Backend> create_with_control_plane(const BackendContext& context) {
  context.lasting_store->set("control plane", context.control_plane ? "yes" : "no");
  context.lasting_store->set("device", std::to_string(context.cuda_device.value_or(-1)));
  return std::make_unique<Named>();
}
const BackendModule controlled{backend_abi_version,       "controlled", "cuda", works,
                               create_with_control_plane, nullptr,      true};
const BackendModule gloo{backend_abi_version, "gloo", "cpu", works, create};

class BackendChoice : public testing::Test {
 protected:
  void SetUp() override {
    for (const BackendModule* module : {&on_cpu, &on_gpu, &on_both, &broken}) {
      ASSERT_TRUE(registry_.add(*module).ok());
    }
  }

  std::string chosen(const std::string& text) { return in_words(choose_modules(registry_, text)); }
  std::string refused(const std::string& text) {
    return error_of([&] { choose_modules(registry_, text); });
  }

  Registry registry_{{}};
};

TEST_F(BackendChoice, ANameAloneIsForAllDevicesOfItsModule) {
  EXPECT_EQ(chosen("soft"), "cpu:Soft");
  EXPECT_EQ(chosen("BOTH"), "cpu:both,cuda:both");
  EXPECT_EQ(chosen("soft,hard"), "cpu:Soft,cuda:hard");
}

TEST_F(BackendChoice, EachDeviceMayHaveItsOwn) {
  EXPECT_EQ(chosen("cuda:both"), "cuda:both");
  EXPECT_EQ(chosen("CPU:soft,cuda:Both"), "cpu:Soft,cuda:both");
  const auto modules = choose_modules(registry_, "cuda:hard,cpu:both");
  ASSERT_EQ(modules.size(), 2U);
  EXPECT_EQ(modules[0].module, &on_gpu);
  EXPECT_EQ(modules[1].devices, std::vector<Device::Kind>{Device::Kind::cpu});
}

TEST_F(BackendChoice, WhatIsNoChoiceIsAnError) {
  for (const char* const text : {"", ",", "soft,", ":soft", "cpu:", "cpu:soft:x", "cpu:soft,,cuda:hard"}) {
    EXPECT_TRUE(contains(refused(text), "cannot read backend '")) << text;
    EXPECT_TRUE(contains(error_of([&] { checked_name(registry_, text); }), "cannot read backend '")) << text;
  }
  EXPECT_TRUE(contains(refused("odd"), "unknown backend 'odd'"));
  EXPECT_EQ(refused("broken"), "backend 'broken' cannot be used: there is no GPU");
  EXPECT_EQ(refused("cuda:soft"), "backend 'soft' works on cpu, not on 'cuda'");
  EXPECT_EQ(refused("tpu:both"), "backend 'both' works on cpu,cuda, not on 'tpu'");
  EXPECT_EQ(refused("soft,both"), "backend 'soft,both' names two backends for the device cpu");
  EXPECT_EQ(refused("cuda:hard,cuda:both"),
            "backend 'cuda:hard,cuda:both' names two backends for the device cuda");
}

// A program may use a name where the backend itself cannot run.
TEST_F(BackendChoice, ANameNeedNotBeUsable) {
  EXPECT_EQ(checked_name(registry_, "Broken"), "broken");
  EXPECT_EQ(checked_name(registry_, "NCCL"), "nccl");
  EXPECT_EQ(checked_name(registry_, "cpu:gloo,cuda:Broken"), "cpu:gloo,cuda:broken");
  EXPECT_EQ(error_of([&] { checked_name(registry_, "tpu:gloo"); }),
            "unknown device 'tpu'; known are cpu and cuda");
  EXPECT_TRUE(contains(error_of([&] { checked_name(registry_, "odd"); }), "unknown backend 'odd'"));
}

TEST_F(BackendChoice, AModuleMakesOneBackendForItsDevicesWithKeysOfItsOwn) {
  const auto store = std::make_shared<HashStore>();
  const GroupDescription group{"g", 1, 3, std::chrono::seconds(60), "both"};
  const auto both = make_backends(choose_modules(registry_, "both"), store, group, soon(), "", {});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].backend, both[1].backend);
  EXPECT_NE(both[0].device, both[1].device);
  const auto two = make_backends(choose_modules(registry_, "soft,hard"), store, group, soon(), "", {});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_NE(two[0].backend, two[1].backend);
  EXPECT_EQ(store->num_keys(), 3);  // "rank", of each module
}

TEST_F(BackendChoice, AModuleMayTakeCudaTensorsByWayOfTheHost) {
  const BackendModule staged{backend_abi_version, "staged", "cpu", works, create, nullptr, false, true};
  ASSERT_TRUE(registry_.add(staged).ok());
  EXPECT_EQ(chosen("staged"), "cpu:staged,cuda:staged");
  EXPECT_EQ(chosen("cpu:staged"), "cpu:staged");
  EXPECT_EQ(chosen("staged,hard"), "cpu:staged,cuda:hard");
  EXPECT_EQ(refused("cuda:hard,cuda:staged"),
            "backend 'cuda:hard,cuda:staged' names two backends for the device cuda");

  const GroupDescription group{"g", 1, 3, std::chrono::seconds(60), "staged"};
  const auto make = [&](const std::string& text) {
    return make_backends(choose_modules(registry_, text), std::make_shared<HashStore>(), group, soon(), "",
                         {});
  };
  for (const char* const text : {"staged", "cuda:staged,cpu:staged"}) {
    const auto both = make(text);
    ASSERT_EQ(both.size(), 2U) << text;
    EXPECT_EQ(both[0].device, Device::Kind::cpu);
    EXPECT_EQ(both[1].device, Device::Kind::cuda);
    EXPECT_NE(both[0].backend, both[1].backend);
  }
  const auto on_device = make("cuda:staged");
  ASSERT_EQ(on_device.size(), 2U);
  EXPECT_EQ(on_device[0].device, std::nullopt);  // which carries its calls out
  EXPECT_EQ(on_device[1].device, Device::Kind::cuda);
}

TEST_F(BackendChoice, AControlPlaneIsMadeBeforeTheBackendThatUsesIt) {
  ASSERT_TRUE(registry_.add(controlled).ok());
  EXPECT_EQ(chosen("controlled"), "cuda:controlled");
  EXPECT_EQ(choose_modules(registry_, "controlled").size(), 1U);  // there is no gloo
  ASSERT_TRUE(registry_.add(gloo).ok());
  EXPECT_EQ(chosen("controlled"), "cuda:controlled");
  EXPECT_EQ(chosen("cuda:controlled,cpu:soft"), "cpu:Soft,cuda:controlled");

  const auto store = std::make_shared<HashStore>();
  GroupDescription group{"g", 1, 3, std::chrono::seconds(60), "controlled"};
  group.cuda_device = 2;
  const auto backends = make_backends(choose_modules(registry_, "controlled"), store, group, soon(), "", {});
  ASSERT_EQ(backends.size(), 2U);
  EXPECT_EQ(backends[0].device, std::nullopt);
  EXPECT_EQ(backends[1].device, Device::Kind::cuda);
  EXPECT_EQ(backend_store(store, {})->get("controlled/control plane", soon()), "yes");
  EXPECT_EQ(backend_store(store, {})->get("controlled/device", soon()), "2");
}

TEST_F(BackendChoice, AnErrorAboutAPeerNamesItsHost) {
  const BackendModule failing{backend_abi_version, "failing", "cpu", works, fail_for_peer};
  ASSERT_TRUE(registry_.add(failing).ok());
  GroupDescription group{"g", 0, 2, std::chrono::seconds(60), "failing"};
  const auto error = [&] {
    return error_of([&] {
      make_backends(choose_modules(registry_, "failing"), std::make_shared<HashStore>(), group, soon(), "",
                    {});
    });
  };
  EXPECT_EQ(error(), "peer 1: it cannot be reached");
  group.hosts = {"node0", "node1"};
  EXPECT_EQ(error(), "peer 1 on node1: it cannot be reached");
}

}  // namespace
}  // namespace dlaunch::internal
