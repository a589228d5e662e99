// The flight recorder, read back as the agent reads it.
#include "runtime/record/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "agent/observe/worker_pages.h"
#include "dlaunch/store.h"
#include "runtime/group/world.h"
#include "store/client/hash_store.h"
#include "tests/runtime/api/variable.h"
#include "tests/runtime/group/thread_groups.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::internal {
namespace {

using agent::WorkerRecord;
using page::Operation;

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() { path_ = agent::worker_page_path(folder_.path(), 0, 0); }
  std::vector<int> ranks(int size) {
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  GroupRecorder open(int rank, int size) {
    recorder_.open(path_, rank, size);
    return recorder_.add({"job/default/0", "default", "gloo", rank, ranks(size)});
  }
  WorkerRecord read() {
    const auto seen = agent::read_worker_page(path_);
    EXPECT_TRUE(seen);
    return seen ? seen->record : WorkerRecord{};
  }
  static Timeout within(std::uint32_t ms) { return timeout_from_now(std::chrono::milliseconds(ms)); }
  static constexpr GroupRecorder::What floats{Operation::all_reduce, DType::float32, 1024, 1024};

  test::TemporaryFolder folder_;
  std::string path_;
  Recorder recorder_;
};

// The page of this process: its recorder keeps the first one that it is given.
class OwnPageTest : public RecorderTest {
 protected:
  OwnPageTest() {
    static const test::TemporaryFolder folder;
    path_ = agent::worker_page_path(folder.path(), 0, 0);
    recorder().open(path_, 0, 2);
  }
};

TEST_F(RecorderTest, UnopenedPageIsNotRead) { EXPECT_FALSE(agent::read_worker_page(path_)); }

TEST_F(RecorderTest, WhatIsRecordedIsRead) {
  const GroupRecorder group = open(3, 8);
  const RecordMark first = group.begin(floats, 1, -1, within(5000));
  group.end(first, true);
  const RecordMark message = group.begin({Operation::recv, DType::int64, 0, 7}, 1, 5, within(6000));
  group.begin({Operation::barrier, std::nullopt, 0, 0}, 2, -1, within(7000));
  group.end(message, false);

  const WorkerRecord record = read();
  EXPECT_EQ(record.pid, getpid());
  EXPECT_EQ(record.rank, 3);
  EXPECT_EQ(record.world_size, 8);
  EXPECT_EQ(record.activity, (agent::Activity{5, 1}));
  ASSERT_EQ(record.groups.size(), 1U);
  const WorkerRecord::Group& read_group = record.groups[0];
  EXPECT_EQ(read_group.name, "default");
  EXPECT_EQ(read_group.backend, "gloo");
  EXPECT_EQ(read_group.rank, 3);
  EXPECT_EQ(read_group.size, 8U);
  EXPECT_EQ(read_group.ranks, (std::vector<page::Run>{{0, 1, 8}}));
  EXPECT_EQ(std::vector({read_group.entered, read_group.ended, read_group.done}),
            (std::vector<std::uint64_t>{2, 1, 1}));
  ASSERT_EQ(record.entries.size(), 3U);
  EXPECT_EQ(record.entries[0].operation, Operation::all_reduce);
  EXPECT_EQ(record.entries[0].created_ns, record.first_ns);
  EXPECT_EQ(record.entries[0].dtype, static_cast<std::uint8_t>(DType::float32));
  EXPECT_EQ(record.entries[0].input, 1024U);
  EXPECT_EQ(record.entries[0].timeout_ms, 5000U);
  EXPECT_EQ(record.entries[0].state, page::Record::completed);
  EXPECT_GE(record.entries[0].ended_ns, record.entries[0].created_ns);
  EXPECT_EQ(record.entries[1].peer, 5);
  EXPECT_EQ(record.entries[1].state, page::Record::failed);
  EXPECT_EQ(record.entries[2].state, page::Record::started);
  EXPECT_EQ(record.entries[2].ended_ns, 0);
  EXPECT_EQ(record.entries[2].dtype, page::no_dtype);
  EXPECT_EQ(record.moved_ns, record.entries[1].ended_ns);
}

TEST_F(RecorderTest, HowFarTheDeviceIsIsRead) {
  const GroupRecorder group = open(0, 2);
  const RecordMark mark = group.begin(floats, 1, -1, within(1));
  EXPECT_EQ(read().entries[0].on_device, page::Record::not_known);
  group.put_on_device(mark, page::Record::queued);
  EXPECT_EQ(read().entries[0].on_device, page::Record::queued);
  group.put_on_device(mark, page::Record::begun);
  EXPECT_EQ(read().entries[0].on_device, page::Record::begun);
  // The place belongs to a later operation: it keeps what it has.
  for (std::size_t i = 0; i < page::max_records; ++i) group.begin(floats, 2 + i, -1, within(1));
  group.put_on_device(mark, page::Record::queued);
  for (const WorkerRecord::Entry& entry : read().entries) EXPECT_EQ(entry.on_device, page::Record::not_known);
}

// One that is waited for takes the last place; what ends beside it, or behind it, only raises the number.
TEST_F(RecorderTest, TheLastThatHasEndedIsKnownInWhateverOrderTheyEnd) {
  const GroupRecorder group = open(0, 2);
  const auto done = [&] { return read().groups[0].done; };
  const RecordMark first = group.begin(floats, 1, -1, within(1));
  const RecordMark second = group.begin(floats, 2, -1, within(1));
  const RecordMark awaited = group.begin(floats, 3, -1, within(1), true);
  group.end(second, true);
  EXPECT_EQ(done(), 2U);
  group.end(awaited, true);
  EXPECT_EQ(done(), 3U);
  group.end(first, true);
  EXPECT_EQ(done(), 3U);
  EXPECT_EQ(read().groups[0].ended, 3U);
  group.end(group.begin(floats, 4, -1, within(1), true), false);
  EXPECT_EQ(done(), 3U);
  EXPECT_EQ(read().groups[0].ended, 4U);
}

// Without being a move: one that asks again and again whether a message has come still waits.
TEST_F(OwnPageTest, WaitForAnOperationIsRecorded) {
  const WorkSource operation;
  std::thread waiter([&] { operation.work().wait(); });
  while (read().activity != agent::Activity{0, 1}) std::this_thread::yield();
  operation.succeed();
  waiter.join();
  EXPECT_EQ(read().activity, (agent::Activity{0, 0}));
  operation.work().wait();  // has completed: no thread waits

  // For a message, in any way. A message that is not polled may have been posted long in advance.
  test::expect_success(test::in_groups(1, [&](const ProcessGroup& group) {
    std::vector<std::int64_t> number{1};
    std::vector<std::int64_t> got{0};
    const auto posted = [&] { return group.irecv(Tensor::of(got), 0); };
    const auto send_to = [&](const Work& work) {
      group.send(Tensor::of(number), 0);
      work.wait();
    };
    const auto open = [&] { return read().activity.open; };
    const auto asks = [&] { return read().activity.asks; };

    const Work alone = posted();
    EXPECT_EQ(open(), 0U);
    EXPECT_EQ(asks(), 0U);

    EXPECT_FALSE(alone.is_completed());
    EXPECT_FALSE(alone.is_success());
    EXPECT_FALSE(alone.exception());
    EXPECT_THROW(alone.wait(std::chrono::milliseconds(1)), DistError);
    EXPECT_EQ(asks(), 4U);
    EXPECT_EQ(open(), 0U);
    send_to(alone);
    const std::uint64_t before = asks();
    EXPECT_TRUE(alone.is_completed());
    EXPECT_EQ(asks(), before);

    const Work future = posted();
    (void)future.get_future();
    EXPECT_EQ(open(), 1U);
    future.then([](const Work&) {});
    EXPECT_EQ(open(), 1U);
    const Work called = posted();
    called.then([](const Work&) {});
    EXPECT_EQ(open(), 2U);
    send_to(future);
    EXPECT_EQ(open(), 1U);
    send_to(called);
    EXPECT_EQ(open(), 0U);
  }));

  // In a second init_process_group for the other rank. To a first one a program may take its time: see below.
  const test::Variable page("DLAUNCH_WORKER_PAGE", path_.c_str());
  const auto init = [this](World& world, const std::string& file, int rank, int size) {
    InitOptions options;
    options.backend = "threads";
    options.init_method = "file://" + folder_.path() + "/" + file;
    options.rank = rank;
    options.world_size = size;
    world.init(options);
  };
  World worlds[2];
  for (int rank : {0, 1}) {
    World& world = worlds[rank];
    init(world, "first" + std::to_string(rank), 0, 1);
    world.destroy_all();
  }
  std::thread first([&] { init(worlds[0], "second", 0, 2); });
  while (read().activity.open != 1) std::this_thread::yield();
  EXPECT_GT(read().forming_ns, 0);
  init(worlds[1], "second", 1, 2);
  first.join();
  EXPECT_EQ(read().forming_ns, 0);
  EXPECT_EQ(read().activity.open, 0U);
  std::thread leaves([&] { worlds[0].destroy_all(); });
  worlds[1].destroy_all();
  leaves.join();
}

TEST_F(OwnPageTest, TheWayToAGroupIsNoOperation) {
  {
    const FormingRecord forming;
    EXPECT_GT(read().forming_ns, 0);
    EXPECT_EQ(read().activity.open, 0U);
    EXPECT_EQ(read().activity.minor, 1U);
  }
  EXPECT_EQ(read().forming_ns, 0);
  EXPECT_EQ(read().activity.minor, 0U);
}

TEST_F(OwnPageTest, AKeyOfAStoreThatAThreadWaitsForIsShown) {
  {
    const KeyWaitRecord waiting("a key");
    const KeyWaitRecord also_waiting("another key");
    EXPECT_GT(read().key_since_ns, 0);
    EXPECT_EQ(read().key, "a key");
    EXPECT_EQ(read().activity.minor, 1U);
  }
  EXPECT_EQ(read().key_since_ns, 0);
  EXPECT_EQ(read().key, "");
  { const KeyWaitRecord waiting(std::string(1000, 'k')); }
  const KeyWaitRecord waiting(std::string(1000, 'k'));
  EXPECT_EQ(read().key, std::string(48, 'k'));
}

TEST_F(OwnPageTest, WaitsOfAProgramsOwnStoreAreShown) {
  const std::string file = folder_.path() + "/store";
  const auto until_shown = [&](const char* key, const std::function<void(KeyValueStore&)>& wait,
                               const std::function<void(KeyValueStore&)>& end) {
    std::thread waiter([&] { wait(*make_file_store(file)); });
    while (read().key != key) std::this_thread::yield();
    end(*make_file_store(file));
    waiter.join();
    EXPECT_EQ(read().key, "");
  };
  until_shown(
      "a", [](KeyValueStore& s) { s.get("a"); }, [](KeyValueStore& s) { s.set("a", "1"); });
  const std::vector<std::string> keys{"b", "c"};
  const auto set_both = [](KeyValueStore& s) {
    s.set("b", "1");
    s.set("c", "1");
  };
  until_shown(
      "b", [&](KeyValueStore& s) { s.wait(keys); }, set_both);
  until_shown(
      "d", [](KeyValueStore& s) { s.barrier("d", 2); }, [](KeyValueStore& s) { s.barrier("d", 2); });
}

TEST_F(RecorderTest, WithoutAPageNothingHappens) {
  for (const std::string& path : {folder_.path() + "/none/0", folder_.path(), std::string("/dev/null")}) {
    Recorder none;
    none.open(path, 0, 2);
    const GroupRecorder group = none.add({"x", "x", "gloo", 0, ranks(2)});
    group.end(group.begin(floats, 1, -1, within(1)), true);
    group.leave();
  }
  const std::string small = folder_.path() + "/small";
  close(::open(small.c_str(), O_CREAT | O_WRONLY, 0600));
  Recorder none;
  none.open(small, 0, 2);
  struct stat about {};
  ASSERT_EQ(stat(small.c_str(), &about), 0);
  EXPECT_EQ(about.st_size, 0) << "it is nobody's page and stays as it is";
}

// A file that grows past the limit ends its process.
TEST_F(RecorderTest, NoneIsMadeWhereFilesMayNotBeSoLong) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit tight{sizeof(page::Page) - 1, sizeof(page::Page) - 1};
    setrlimit(RLIMIT_FSIZE, &tight);
    recorder_.open(path_, 0, 2);
    _exit(access(path_.c_str(), F_OK) == 0 ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(RecorderTest, APageIsForItsUserOnly) {
  open(0, 2);
  struct stat about {};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
}

TEST_F(RecorderTest, AWorkersPageGoesBeforeItsSuccessorStarts) {
  agent::WorkerPages pages(folder_.path());
  pages.prepare({0, 0});
  open(0, 2);
  pages.prepare({1, 0});
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RecorderTest, AnotherLivingProcessKeepsItsPage) {
  open(0, 2);
  const pid_t child = fork();
  if (child == 0) {
    recorder_.open(path_, 1, 2);
    const GroupRecorder stranger = recorder_.add({"y", "y", "gloo", 1, std::vector<int>{0, 1}});
    stranger.end(stranger.begin(floats, 9, -1, within(1)), true);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read().rank, 0);
  EXPECT_TRUE(read().entries.empty());
  EXPECT_EQ(read().groups.size(), 1U);
}

TEST_F(RecorderTest, ADeadProcessLosesItsPage) {
  const pid_t child = fork();
  if (child == 0) {
    const GroupRecorder group = open(1, 2);
    group.begin(floats, 9, -1, within(1));
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(read().entries.size(), 1U);
  EXPECT_EQ(agent::read_worker_page(path_)->condition, agent::Condition::ended);
  open(0, 2);
  EXPECT_EQ(read().pid, getpid());
  EXPECT_TRUE(read().entries.empty());
  EXPECT_EQ(read().activity, agent::Activity{});
}

TEST_F(RecorderTest, MembersAreWrittenAsRuns) {
  recorder_.open(path_, 0, 1000);
  const auto runs = [&](std::vector<int> members) {
    recorder_.add({std::to_string(members.size()), "g", "gloo", 0, members});
    return read().groups.back().ranks;
  };
  EXPECT_EQ(runs({0, 4, 8, 12}), (std::vector<page::Run>{{0, 4, 4}}));
  EXPECT_EQ(runs({7}), (std::vector<page::Run>{{7, 1, 1}}));
  EXPECT_EQ(runs({0, 1, 2, 10, 20, 30}), (std::vector<page::Run>{{0, 1, 3}, {10, 10, 3}}));
  std::vector<int> odd;
  for (int i = 0; i < 40; ++i) odd.push_back(i * i);
  const auto some = runs(odd);
  EXPECT_EQ(some.size(), page::max_runs);
  EXPECT_EQ(read().groups.back().size, 40U) << "so a reader knows that there are more";
}

TEST_F(RecorderTest, APlaceOfAGroupThatWasLeftIsUsedAgain) {
  recorder_.open(path_, 0, 2);
  for (std::size_t i = 0; i < page::max_groups; ++i) {
    const GroupRecorder group = recorder_.add({std::to_string(i), std::to_string(i), "gloo", 0, ranks(2)});
    if (i == 5 || i == 7) group.leave();
  }
  EXPECT_EQ(read().groups.size(), page::max_groups);
  EXPECT_TRUE(read().groups[5].left);
  const GroupRecorder next = recorder_.add({"next", "next", "gloo", 0, ranks(2)});
  next.begin(floats, 1, -1, within(1));
  const WorkerRecord record = read();
  EXPECT_EQ(record.groups.back().name, "next");
  EXPECT_EQ(record.groups.back().entered, 1U);
  EXPECT_EQ(record.entries.back().group, record.groups.back().id);
  recorder_.add({"last", "last", "gloo", 0, ranks(2)});
  const GroupRecorder none = recorder_.add({"none", "none", "gloo", 0, ranks(2)});
  none.end(none.begin(floats, 1, -1, within(1)), true);
  EXPECT_EQ(read().groups.back().name, "last") << "there was no place left";
}

TEST_F(RecorderTest, ConnectionsAreKeptOnceEachAndTheLatestOfMany) {
  recorder_.add_link(1, 100);  // there is no page: nothing
  recorder_.open(path_, 0, 4);
  recorder_.add_link(1, 101);
  recorder_.add_link(1, 101);
  recorder_.add_link(3, 102);
  EXPECT_EQ(read().links, (std::vector<page::Link>{{101, 1, 0}, {102, 3, 0}}));
  for (std::uint64_t i = 0; i < page::max_links; ++i) recorder_.add_link(2, 1000 + i);
  const auto links = read().links;
  EXPECT_EQ(links.size(), page::max_links);
  EXPECT_EQ(std::ranges::count(links, 2, &page::Link::rank), static_cast<std::ptrdiff_t>(page::max_links));
}

TEST_F(RecorderTest, IdentitiesAreOfTheGroupAndNotOfTheRank) {
  open(0, 2);
  recorder_.add({"job/default/0/group/1", "1", "gloo", 0, ranks(2)});
  const WorkerRecord here = read();
  Recorder other;
  other.open(agent::worker_page_path(folder_.path(), 0, 1), 1, 2);
  other.add({"job/default/0", "default", "gloo", 1, ranks(2)});
  const auto there = agent::read_worker_page(agent::worker_page_path(folder_.path(), 0, 1))->record;
  EXPECT_EQ(here.groups[0].identity, there.groups[0].identity);
  EXPECT_NE(here.groups[0].identity, here.groups[1].identity);
}

// The ring goes round and round under four writers: what a reader believes is always whole.
TEST_F(RecorderTest, ConcurrentReadIsConsistent) {
  const GroupRecorder group = open(0, 2);
  constexpr int writers = 4;
  std::atomic<bool> enough = false;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = 1; !enough; ++i) {
        // Every word has the same value.
        const GroupRecorder::What what{Operation::send, DType::uint8, i, i};
        group.end(group.begin(what, i, writer, within(static_cast<std::uint32_t>(i))), true);
      }
    });
  }
  std::size_t whole = 0;
  for (int i = 0; i < 200 || whole == 0; ++i) {
    for (const WorkerRecord::Entry& entry : read().entries) {
      ++whole;
      ASSERT_EQ(entry.input, entry.sequence);
      ASSERT_EQ(entry.output, entry.sequence);
      ASSERT_EQ(entry.timeout_ms, static_cast<std::uint32_t>(entry.sequence));
      ASSERT_LT(entry.peer, writers);
    }
  }
  enough = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read().entries.size(), page::max_records);
  EXPECT_EQ(read().activity.open, 0U);
}

// What a group's calls leave on the page: every collective once, with its sizes, and a failure as such.
TEST_F(RecorderTest, AGroupRecordsItsCalls) {
  std::vector<GroupRecorder> records;
  records.push_back(open(0, 2));
  Recorder other;
  other.open(agent::worker_page_path(folder_.path(), 0, 1), 1, 2);
  records.push_back(other.add({"job/default/0", "default", "gloo", 1, ranks(2)}));
  const auto keys = std::make_shared<HashStore>();
  test::expect_success(test::on_ranks(2, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    const auto impl = std::make_shared<GroupImpl>(
        GroupDescription{"default", rank, 2, std::chrono::seconds(60), "threads"},
        std::vector<GroupImpl::DeviceBackend>{
            {Device::Kind::cpu, std::make_shared<CollectiveBackend>(std::move(transport))}},
        keys, records[static_cast<std::size_t>(rank)]);
    const ProcessGroup group = GroupImpl::handle(impl);
    std::vector<float> a(6, 1.0F);
    std::vector<float> b(3, 1.0F);
    std::vector<float> c(6, 1.0F);
    const Tensor six = Tensor::of(a);
    const Tensor three = Tensor::of(b);
    impl->all_reduce(six, ReduceOp::sum, {});
    impl->broadcast(six, 0, {}).wait();
    impl->all_gather_into_tensor(six, three, {});
    impl->reduce_scatter_tensor(three, Tensor::of(c), ReduceOp::sum, {});
    impl->barrier({});
    impl->set_timeout(std::chrono::seconds(7));
    const Work work = impl->all_reduce(six, ReduceOp::sum, {.async_op = true, .timeout = std::nullopt});
    work.wait();
    const Work message = rank == 0 ? impl->isend(three, 1, {}) : impl->irecv(three, 0, {});
    message.wait();
    impl->monitored_barrier(std::nullopt, false);
    impl->destroy();
  }));
  const WorkerRecord record = read();
  std::vector<Operation> operations;
  for (const WorkerRecord::Entry& entry : record.entries) {
    operations.push_back(entry.operation);
    EXPECT_EQ(entry.state, page::Record::completed) << static_cast<int>(entry.operation);
  }
  EXPECT_EQ(operations,
            (std::vector{Operation::all_reduce, Operation::broadcast, Operation::all_gather_into_tensor,
                         Operation::reduce_scatter_tensor, Operation::barrier, Operation::all_reduce,
                         Operation::send, Operation::monitored_barrier}));
  std::vector<std::uint32_t> timeouts;
  for (const WorkerRecord::Entry& entry : record.entries) timeouts.push_back(entry.timeout_ms);
  EXPECT_EQ(timeouts, (std::vector<std::uint32_t>{60000, 60000, 60000, 60000, 60000, 7000, 7000, 7000}));
  EXPECT_EQ(record.entries[2].input, 3U);
  EXPECT_EQ(record.entries[2].output, 6U);
  EXPECT_EQ(record.entries[3].input, 6U);
  EXPECT_EQ(record.entries[3].output, 3U);
  EXPECT_EQ(record.entries[6].peer, 1);
  EXPECT_EQ(record.groups[0].done, 6U);
  EXPECT_TRUE(record.groups[0].left);
  EXPECT_EQ(record.activity, (agent::Activity{16, 0}));
}

}  // namespace
}  // namespace dlaunch::internal
