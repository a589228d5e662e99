// The documents' example: all ranks call a collective of a group of which only some are members.

#include <dlaunch/debug.h>
#include <dlaunch/distributed.h>
#include <dlaunch/object.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/rank_processes.h"

namespace {

using dlaunch::CollectiveOptions;
using dlaunch::PointToPointOptions;
using dlaunch::ProcessGroup;
using dlaunch::Tensor;
using dlaunch::test::expect_all_say;
using dlaunch::test::run_processes;

// "Writing Distributed Applications", simple collective: ranks 0 and 1 print 2, the others keep their 1.
TEST(NonMember, ItsAllReduceLeavesTheTensorAlone) {
  const auto results = run_processes(4, [](int) {
    dlaunch::init_process_group();
    const ProcessGroup group = dlaunch::new_group({0, 1});
    std::vector<float> tensor = {1};
    dlaunch::all_reduce(Tensor::of(tensor), dlaunch::ReduceOp::sum, {{}, group});
    dlaunch::destroy_process_group();
    return std::to_string(static_cast<int>(tensor[0]));
  });
  EXPECT_EQ(results[0].said + results[1].said + results[2].said + results[3].said, "2211");
}

TEST(NonMember, RootsAndPeersAreGlobalRanks) {
  expect_all_say(run_processes(2,
                               [](int rank) -> std::string {
                                 dlaunch::init_process_group();
                                 const ProcessGroup group = dlaunch::new_group({0});
                                 std::vector<int> value = {5};
                                 const Tensor tensor = Tensor::of(value);
                                 if (rank == 1) {
                                   const CollectiveOptions in{{}, group};
                                   const PointToPointOptions message{{}, group};
                                   dlaunch::broadcast(tensor, 0, in);
                                   dlaunch::reduce(tensor, 0, dlaunch::ReduceOp::sum, in);
                                   dlaunch::gather({}, tensor, 0, in);
                                   dlaunch::scatter(tensor, {}, 0, in);
                                   dlaunch::send(tensor, 0, message);
                                   if (dlaunch::recv(tensor, 0, message) != -1) return "a message came";
                                   if (dlaunch::recv(tensor, dlaunch::any_source, message) != -1)
                                     return "a message came from anywhere";
                                   dlaunch::isend(tensor, 0, message).wait();
                                   dlaunch::irecv(tensor, 0, message).wait();
                                   dlaunch::monitored_barrier({}, false, group);
                                 }
                                 dlaunch::destroy_process_group();
                                 return value[0] == 5 ? "ok" : "changed";
                               }),
                 "ok");
}

TEST(NonMember, ItsListsStayAsTheyAre) {
  expect_all_say(run_processes(2,
                               [](int) -> std::string {
                                 using Words = std::vector<std::string>;
                                 dlaunch::init_process_group();
                                 const ProcessGroup group = dlaunch::new_group({0});
                                 Words list = {"own", "list"};
                                 if (group.rank() < 0) {
                                   dlaunch::broadcast_object_list(list, 0, group);
                                   if (dlaunch::recv_object_list(list, 0, group) != -1) return "a list came";
                                   dlaunch::send_object_list(list, 0, group);
                                   if (!dlaunch::all_gather_object(list, group).empty()) return "gathered";
                                   if (!dlaunch::gather_object(list, 0, group).empty())
                                     return "gathered at the root";
                                   if (!dlaunch::scatter_object_list(list, 0, group).empty())
                                     return "scattered";
                                 }
                                 dlaunch::destroy_process_group();
                                 return list == Words{"own", "list"} ? "ok" : "changed";
                               }),
                 "ok");
}

TEST(NonMember, IsWarnedOnceForEachGroup) {
  const auto results = run_processes(2, [](int) {
    std::string said;
    dlaunch::set_log_handler([&said](dlaunch::LogLevel level, const std::string& message) {
      if (level == dlaunch::LogLevel::warning) said += message + "\n";
    });
    dlaunch::init_process_group();
    for (int i = 0; i < 2; ++i) {
      dlaunch::NewGroupOptions options;
      options.name = "alone " + std::to_string(i);
      const ProcessGroup group = dlaunch::new_group({1}, options);
      group.barrier();
      group.barrier();
      dlaunch::monitored_barrier({}, false, group);
    }
    dlaunch::destroy_process_group();
    dlaunch::set_log_handler({});
    return said;
  });
  const std::string rest =
      "), of which it is not a member: this call and later ones of this rank on that group "
      "do nothing\n";
  EXPECT_EQ(results[0].said, "rank 0 called barrier on group alone 0 (rank 1" + rest +
                                 "rank 0 called barrier on group alone 1 (rank 1" + rest);
  EXPECT_EQ(results[1].said, "") << "a member is not warned";
}

// "Can be any list on non-src ranks, elements are not used."
TEST(ScatterObjectList, AListOnAnotherRankIsNotLookedAt) {
  const auto results = run_processes(3, [](int rank) {
    dlaunch::init_process_group();
    const std::vector<std::string> objects =
        rank == 0 ? std::vector<std::string>{"foo", "12", "{1: 2}"}
                  : std::vector<std::string>(3U + static_cast<unsigned>(rank), "none");
    const std::string own = dlaunch::scatter_object_list(objects, 0);
    std::vector<int> one = {1};
    dlaunch::all_reduce(Tensor::of(one));  // the group is whole
    dlaunch::destroy_process_group();
    return own + " of " + std::to_string(one[0]);
  });
  EXPECT_EQ(results[0].said, "foo of 3");
  EXPECT_EQ(results[1].said, "12 of 3");
  EXPECT_EQ(results[2].said, "{1: 2} of 3");
}

}  // namespace
