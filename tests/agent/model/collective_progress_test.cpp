#include "agent/model/collective_progress.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/agent/model/made_record.h"

namespace dlaunch::agent {
namespace {

using page::Operation;

TEST(CollectiveProgress, ReportsTheOldestOtherOperation) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  page.end(page.enter(1, Operation::all_reduce, 1, 1'000), 2'000);
  page.enter(1, Operation::send, 1, 3'000).state = page::Record::completed;
  page.enter(1, Operation::monitored_barrier, 1, 4'000);
  page.enter(1, Operation::recv, 2, 5'000).peer = 1;
  WorkerSeen seen{record_of(page), Condition::runs};
  RankProgress here = collect_group_progress({&seen, 1}, 2, 9'000).at(0).here.at(0);
  EXPECT_TRUE(here.waits_otherwise());
  EXPECT_EQ(here.operation, Operation::monitored_barrier);
  EXPECT_TRUE(here.needs_all);
  EXPECT_EQ(here.waited, Duration(5'000));
  seen.condition = Condition::ended;
  here = collect_group_progress({&seen, 1}, 2, 9'000).at(0).here.at(0);
  EXPECT_FALSE(here.waits_otherwise());
}

TEST(CollectiveProgress, NamesAMessagesPeerByItsRankInTheJob) {
  MadePage page(4, 8);
  page::Group& group = page.add_group(1, "even");
  group.size = 4;
  group.rank = 2;
  group.runs[0] = {0, 2, 4};
  page::Record& recv = page.enter(1, Operation::recv, 1, 5'000);
  const auto peer = [&](int in_group) {
    recv.peer = in_group;
    const WorkerSeen seen{record_of(page), Condition::runs};
    return collect_group_progress({&seen, 1}, 8, 9'000).at(0).here.at(0).peer;
  };
  EXPECT_EQ(peer(3), 6);
  EXPECT_EQ(peer(-1), -1);
  EXPECT_EQ(peer(4), -1);  // not a rank of the group
}

TEST(CollectiveProgress, NamesTheLineOfTheOperationOrElseOfTheLastCollective) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  const auto called = [&] {
    const WorkerSeen seen{record_of(page), Condition::runs};
    return collect_group_progress({&seen, 1}, 2, 9'000).at(0).here.at(0).call_site;
  };
  EXPECT_EQ(called(), "");
  page::Record& first = page.enter(1, Operation::all_reduce, 1, 1'000);
  page.call_at(first, 10, "warm_up");
  page.end(first, 2'000);
  EXPECT_EQ(called(), "train.py:10 in warm_up");
  page.call_at(page.enter(1, Operation::recv, 1, 3'000), 20, "receive");
  EXPECT_EQ(called(), "train.py:20 in receive");
  page.call_at(page.enter(1, Operation::all_reduce, 2, 4'000), 30, "step");
  EXPECT_EQ(called(), "train.py:30 in step");
}

TEST(CollectiveProgress, SaysHowFarTheDeviceIs) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  WorkerSeen seen;
  const auto here = [&] {
    seen.record = record_of(page);
    return collect_group_progress({&seen, 1}, 2, 9'000).at(0).here.at(0);
  };
  page::Record& message = page.enter(1, Operation::recv, 1, 3'000);
  message.peer = 1;
  EXPECT_EQ(here().on_device, page::Record::not_known);
  message.on_device = page::Record::queued;
  EXPECT_EQ(here().on_device, page::Record::queued);
  EXPECT_TRUE(here().is_late_on_device());
  page::Record& collective = page.enter(1, Operation::all_reduce, 1, 4'000);
  EXPECT_EQ(here().on_device, page::Record::not_known);
  collective.on_device = page::Record::queued;
  EXPECT_EQ(here().on_device, page::Record::queued);
  EXPECT_TRUE(here().is_late_on_device());
  collective.on_device = page::Record::begun;
  EXPECT_EQ(here().on_device, page::Record::begun);
  EXPECT_FALSE(here().is_late_on_device());
  seen.condition = Condition::ended;
  EXPECT_EQ(here().on_device, page::Record::not_known);
  seen.condition = Condition::stopped;
  collective.on_device = page::Record::queued;
  EXPECT_FALSE(here().is_late_on_device()) << "its record may be old";
}

TEST(CollectiveProgress, NamesTheMessageThatTheDeviceIsInBeforeACollective) {
  MadePage page(4, 8);
  page::Group& group = page.add_group(1, "even");
  group.size = 4;
  group.rank = 2;
  group.runs[0] = {0, 2, 4};
  page::Record& message = page.enter(1, Operation::send, 1, 3'000);
  message.peer = 3;
  message.on_device = page::Record::begun;
  page::Record& collective = page.enter(1, Operation::all_reduce, 1, 4'000);
  collective.on_device = page::Record::queued;
  const auto here = [&] {
    const WorkerSeen seen{record_of(page), Condition::runs};
    return collect_group_progress({&seen, 1}, 8, 9'000).at(0).here.at(0);
  };
  EXPECT_EQ(here().operation, Operation::all_reduce);
  EXPECT_EQ(here().on_device, page::Record::queued);
  EXPECT_EQ(here().before, Operation::send);
  EXPECT_EQ(here().peer, 6) << "a rank of the job";
  EXPECT_FALSE(here().is_late_on_device()) << "it waits for another rank";
  message.on_device = page::Record::queued;
  EXPECT_EQ(here().before, Operation::none);
  message.on_device = page::Record::begun;
  page.end(message, 5'000);
  EXPECT_EQ(here().before, Operation::none) << "it has ended";
}

TEST(CollectiveProgress, AMeetingMayNeedAllRanksOrSome) {
  MadePage page(0, 4);
  page.add_group(1, "default");
  page::Record& meeting = page.enter(1, Operation::new_subgroups, 1, 5'000);
  const auto needs_all = [&](std::uint64_t members) {
    meeting.input = members;
    const WorkerSeen seen{record_of(page), Condition::runs};
    return collect_group_progress({&seen, 1}, 4, 9'000).at(0).here.at(0).needs_all;
  };
  EXPECT_TRUE(needs_all(4));
  EXPECT_FALSE(needs_all(2));
}

TEST(CollectiveProgress, IsMadeFromThePages) {
  std::vector<WorkerSeen> workers;
  for (int rank = 0; rank < 2; ++rank) {
    MadePage page(rank, 4);
    page.add_group(1, "default");
    page.end(page.enter(1, Operation::all_reduce, 1, 100), 200);
    if (rank == 0) page.enter(1, Operation::barrier, 2, 1'000);
    workers.push_back({record_of(page), Condition::runs});
  }
  workers[0].state = "is running";
  workers[1].condition = Condition::stopped;
  MadePage other(0, 3);
  other.add_group(1, "its own");
  workers.push_back({*parse_worker_page(other.bytes(), other.bytes()), Condition::runs});

  const auto groups = collect_group_progress(workers, 4, 5'000);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].name, "default");
  EXPECT_EQ(groups[0].size, 4U);
  RankProgress first;
  first.entered = 2;
  first.done = 1;
  first.inside = true;
  first.operation = Operation::barrier;
  first.waited = Duration(4'000);
  first.pid = 4711;
  first.state = "is running";
  RankProgress second;
  second.rank = 1;
  second.entered = second.done = 1;
  second.condition = Condition::stopped;
  second.pid = 4711;
  EXPECT_EQ(groups[0].here, (std::vector{first, second}));
}

TEST(CollectiveProgress, AProcessIsDescribedInOneOfItsGroups) {
  MadePage page(0, 1);
  page.add_group(1, "default");
  page.add_group(2, "other");
  const WorkerSeen seen{record_of(page), Condition::runs, "is running"};
  std::vector<std::string> states;
  for (const GroupProgress& group : collect_group_progress({&seen, 1}, 1, 0)) {
    for (const RankProgress& here : group.here) states.push_back(here.state + std::to_string(here.pid));
  }
  EXPECT_EQ(states, (std::vector<std::string>{"is running4711", "0"}));
}

TEST(CollectiveProgress, RanksWithoutAGroupFollowWithThoseThatWaitForOne) {
  std::vector<WorkerSeen> workers(4);
  for (int rank = 0; rank < 3; ++rank) {
    MadePage page(rank, 4);
    if (rank < 2) page.raw().header.forming_ns = 1'000 * (rank + 1);
    if (rank > 0) page.add_group(1, "default").state = page::Group::left;
    workers[static_cast<std::size_t>(rank)] = {record_of(page), Condition::runs};
  }
  workers[3].record.rank = 3;  // without a page
  workers[3].record.world_size = 4;
  workers[3].record.pid = 7;
  workers[3].state = "is running";
  const auto forming = [&] {
    auto groups = collect_group_progress(workers, 4, 9'000);
    return groups.back().identity == GroupProgress::outside ? groups.back() : GroupProgress{};
  };
  ASSERT_EQ(forming().here.size(), 4U);
  EXPECT_EQ(forming().size, 4U);
  EXPECT_EQ(forming().here[0].operation, Operation::init_process_group);
  EXPECT_EQ(forming().here[0].waited, Duration(8'000));
  EXPECT_TRUE(forming().here[1].needs_all);
  EXPECT_EQ(forming().here[1].waited, Duration(7'000));
  EXPECT_FALSE(forming().here[2].waits_otherwise()) << "it has left its group, and may come to another";
  EXPECT_FALSE(forming().here[3].waits_otherwise());
  EXPECT_EQ(forming().here[3].pid, 7);
  EXPECT_EQ(forming().here[3].state, "is running");
  workers[0].condition = Condition::ended;
  EXPECT_FALSE(forming().here[0].waits_otherwise());
  WorkerRecord::Group group;
  group.identity = 1001;
  for (WorkerSeen& worker : workers) {
    worker.record.forming_ns = 0;
    worker.record.groups = {group};
  }
  EXPECT_EQ(forming(), GroupProgress{}) << "all are in a group";
}

TEST(CollectiveProgress, ARankThatWaitsForTheAnswerToACallIsOutsideToo) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  page.set_worker(0, "trainer");
  page.call(1, "ps", "add", page::Call::sent, 4'000);
  const auto progress = [&] {
    const WorkerSeen seen{record_of(page), Condition::runs, "sleeps"};
    return collect_group_progress({&seen, 1}, 2, 9'000);
  };
  EXPECT_EQ(progress().size(), 1U) << "no thread waits";
  page.raw().header.calls.waiting = 1;
  EXPECT_EQ(parse_page_head(page.bytes())->activity.minor, 1U);
  ASSERT_EQ(progress().size(), 2U);
  const RankProgress here = progress()[1].here.at(0);
  EXPECT_EQ(here.operation, Operation::remote_call);
  EXPECT_EQ(here.peer, 1);
  EXPECT_EQ(here.waited, Duration(5'000));
  EXPECT_EQ(here.state, "waits for the answer of worker ps to 'add'");
  page.set_worker(7, "trainer");
  EXPECT_EQ(progress()[1].here.at(0).peer, -1) << "ids of workers are not ranks of the job";
}

TEST(CollectiveProgress, ARankThatWaitsForAKeyIsOutsideToo) {
  MadePage page(1, 2);
  page.add_group(1, "default");
  page.raw().header.key_since_ns = 4'000;
  page.raw().header.key = {'k'};
  WorkerSeen seen{record_of(page), Condition::runs, "sleeps"};
  const auto groups = collect_group_progress({&seen, 1}, 2, 9'000);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].here.at(0).state, "waits for the key 'k' of a store");
  EXPECT_EQ(groups[1].identity, GroupProgress::outside);
  const RankProgress& here = groups[1].here.at(0);
  EXPECT_EQ(here.operation, Operation::store_wait);
  EXPECT_EQ(here.waited, Duration(5'000));
  EXPECT_EQ(here.state, groups[0].here.at(0).state);
  EXPECT_FALSE(here.needs_all);
  seen.condition = Condition::stopped;
  EXPECT_EQ(collect_group_progress({&seen, 1}, 2, 9'000)[0].here.at(0).state, "sleeps");
}

TEST(CollectiveProgress, TheWaitInAFailedCollectiveEndsWithIt) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  page.end(page.enter(1, Operation::all_reduce, 1, 1'000), 4'000, false);
  const WorkerSeen seen{record_of(page), Condition::ended};
  const auto groups = collect_group_progress({&seen, 1}, 2, 9'000);
  EXPECT_EQ(groups.at(0).here.at(0).waited, Duration(3'000));
  EXPECT_FALSE(groups.at(0).here.at(0).inside);
  EXPECT_TRUE(groups.at(0).here.at(0).waits());
}

}  // namespace
}  // namespace dlaunch::agent
