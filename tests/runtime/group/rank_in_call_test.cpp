// Programs as the documents of torch.distributed write them: rank and world size in the call or in the URL, a
// device mesh in place of init_process_group.

#include <dlaunch/device_mesh.h>
#include <dlaunch/distributed.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/runtime/rank_processes.h"
#include "tests/store/client/reserved_port.h"

namespace {

using dlaunch::InitOptions;
using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::expect_all_say;
using dlaunch::test::run_processes;

std::string add_up(const InitOptions& options) {
  dlaunch::init_process_group(options);
  std::vector<int> one = {1};
  dlaunch::all_reduce(Tensor::of(one));
  const std::string said = std::to_string(dlaunch::get_rank()) + " of " + std::to_string(one[0]);
  dlaunch::destroy_process_group();
  return said;
}

InitOptions given(int rank, int world_size) {
  InitOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.timeout = std::chrono::seconds(50);
  return options;
}

InitOptions by_url(const std::string& url) {
  InitOptions options;
  options.init_method = url;
  options.timeout = std::chrono::seconds(50);
  return options;
}

// The template of "Writing Distributed Applications": MASTER_ADDR and MASTER_PORT are set, nothing else is.
void only_the_master_is_known(const dlaunch::test::ReservedPort& port) {
  for (const char* const name : {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE"})
    unsetenv(name);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port.address().port).c_str(), 1);
}

TEST(RankInCall, EnvNeedsNoRankAndNoWorldSizeInTheEnvironment) {
  const dlaunch::test::ReservedPort port;
  const auto results = run_processes(2, [&](int rank) {
    only_the_master_is_known(port);
    return add_up(given(rank, 2));
  });
  EXPECT_EQ(results[0].said, "0 of 2");
  EXPECT_EQ(results[1].said, "1 of 2");
}

TEST(RankInCall, TakesPrecedenceOverTheEnvironment) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    if (rank == 1) return add_up(given(0, 1));  // another kind of world: no other rank is in it
    return "elsewhere";
  });
  EXPECT_EQ(results[1].said, "0 of 1");
  const auto swapped = run_processes(2, [](int rank) { return add_up(given(1 - rank, -1)); });
  EXPECT_EQ(swapped[0].said, "1 of 2");
  EXPECT_EQ(swapped[1].said, "0 of 2");
}

TEST(RankInCall, WhatIsNoRankIsRefused) {
  expect_all_say(
      run_processes(1, [](int) { return error_of([] { dlaunch::init_process_group(given(2, 2)); }); }),
      "cannot use the rank that was given 2: not between 0 and 1");
}

TEST(RankInUrl, OfTcp) {
  const dlaunch::test::ReservedPort port;
  const auto results = run_processes(2, [&](int rank) {
    only_the_master_is_known(port);
    return add_up(by_url("tcp://127.0.0.1:" + std::to_string(port.address().port) +
                         "?rank=" + std::to_string(rank) + "&world_size=2"));
  });
  EXPECT_EQ(results[0].said, "0 of 2");
  EXPECT_EQ(results[1].said, "1 of 2");
}

TEST(RankInUrl, OfAFile) {
  std::string folder = std::filesystem::temp_directory_path() / "dlaunch_url_test.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto results = run_processes(2, [&](int rank) {
    InitOptions options = by_url("file://" + folder + "/meet?rank=" + std::to_string(rank));
    options.world_size = 2;
    return add_up(options);
  });
  EXPECT_EQ(results[0].said, "0 of 2");
  EXPECT_EQ(results[1].said, "1 of 2");
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "the parameters are no part of the file's name";
  std::filesystem::remove_all(folder);
}

TEST(RankInUrl, OfEnv) {
  const dlaunch::test::ReservedPort port;
  const auto results = run_processes(2, [&](int rank) {
    only_the_master_is_known(port);
    return add_up(by_url("env://?world_size=2&rank=" + std::to_string(rank)));
  });
  EXPECT_EQ(results[0].said, "0 of 2");
  EXPECT_EQ(results[1].said, "1 of 2");
}

TEST(RankInUrl, MustNotContradictTheCall) {
  expect_all_say(run_processes(1,
                               [](int) {
                                 InitOptions options = given(0, 2);
                                 options.init_method = "tcp://127.0.0.1:1?rank=1&world_size=2";
                                 return error_of([&] { dlaunch::init_process_group(options); });
                               }),
                 "init_process_group was given two values of rank: 0 in the call and 1 in the URL of "
                 "init_method; give it once");
}

TEST(InitStore, ExcludesTheInitMethod) {
  expect_all_say(run_processes(1,
                               [](int) -> std::string {
                                 InitOptions options = given(0, 1);
                                 options.store = dlaunch::make_hash_store();
                                 options.init_method = "tcp://127.0.0.1:1";
                                 const std::string said =
                                     error_of([&] { dlaunch::init_process_group(options); });
                                 if (!contains(said, "was given a store and the init_method 'tcp://"))
                                   return said;
                                 options.init_method.clear();
                                 return add_up(options);
                               }),
                 "0 of 1");
}

TEST(InitStore, NeedsRankAndWorldSize) {
  expect_all_say(
      run_processes(1,
                    [](int) {
                      InitOptions options;
                      options.store = dlaunch::make_hash_store();
                      return error_of([&] { dlaunch::init_process_group(options); });
                    }),
      "init_process_group needs a rank and a world_size: both are missing; give them in the call or "
      "in the URL; only env:// has them in the environment");
}

TEST(InitDeviceMesh, MakesTheDefaultGroupIfThereIsNone) {
  expect_all_say(
      run_processes(4,
                    [](int rank) -> std::string {
                      const dlaunch::DeviceMesh mesh = dlaunch::init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
                      if (!dlaunch::is_initialized() || dlaunch::get_backend() != "gloo")
                        return "no default group";
                      std::vector<int> value = {rank};
                      mesh.get_group("tp").all_reduce(Tensor::of(value));
                      if (value[0] != rank / 2 * 4 + 1) return "wrong";
                      dlaunch::destroy_process_group();
                      const dlaunch::DeviceMesh line("cpu", {0, 1, 2, 3}, {4});
                      const std::string size = std::to_string(dlaunch::get_world_size());
                      dlaunch::destroy_process_group();
                      return size;
                    }),
      "4");
}

// All ranks throw it, none waits.
TEST(InitDeviceMesh, OfNoDeviceIsRefusedOnAllRanks) {
  for (const auto& result : run_processes(2, [](int) {
         const std::string said = error_of([] { (void)dlaunch::init_device_mesh("tpu", {2}); });
         dlaunch::barrier();  // or this process ends while the other one still joins, to which it is lost
         dlaunch::destroy_process_group();
         return said;
       })) {
    EXPECT_TRUE(contains(result.said, "a device mesh of 'tpu': unknown device")) << result.said;
  }
}

TEST(GroupHelpers, NoGroupIsTheDefaultGroup) {
  expect_all_say(
      run_processes(2,
                    [](int) -> std::string {
                      dlaunch::init_process_group();
                      const bool same = dlaunch::get_group_rank({}, 1) == 1 &&
                                        dlaunch::get_global_rank({}, 0) == 0 &&
                                        dlaunch::get_process_group_ranks({}).size() == 2;
                      const std::string none = error_of([] { (void)dlaunch::get_group_rank({}, 2); });
                      dlaunch::destroy_process_group();
                      return same && contains(none, "rank 2 is not a member of group default") ? "ok" : none;
                    }),
      "ok");
}

// A process that is not a member may query the group's backend, too.
TEST(GroupHelpers, AnyProcessMayAskForTheBackend) {
  expect_all_say(run_processes(2,
                               [](int) {
                                 dlaunch::init_process_group();
                                 const dlaunch::ProcessGroup first = dlaunch::new_group({0});
                                 const std::string backend = dlaunch::get_backend(first);
                                 dlaunch::destroy_process_group();
                                 return backend;
                               }),
                 "gloo");
}

}  // namespace
