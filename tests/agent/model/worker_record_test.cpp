#include "agent/model/worker_record.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/agent/model/made_page.h"

namespace dlaunch::agent {
namespace {

using page::Operation;

std::optional<WorkerRecord> parse(const MadePage& page) {
  return parse_worker_page(page.bytes(), page.bytes());
}

TEST(WorkerRecord, ReadsEveryFieldOfThePage) {
  MadePage page(3, 8);
  page.add_group(1, "default");
  page.end(page.enter(1, Operation::all_reduce, 1, 100), 150);
  page::Record& message = page.enter(1, Operation::send, 1, 200);
  message.peer = 5;
  page.enter(1, Operation::barrier, 2, 300);
  const auto record = parse(page);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->pid, 4711);
  EXPECT_EQ(record->rank, 3);
  EXPECT_EQ(record->world_size, 8);
  EXPECT_EQ(record->moved_ns, 300);
  EXPECT_EQ(record->activity, (Activity{4, 1}));
  ASSERT_EQ(record->groups.size(), 1U);
  const WorkerRecord::Group& group = record->groups.front();
  EXPECT_EQ(group.name, "default");
  EXPECT_EQ(group.backend, "gloo");
  EXPECT_EQ(group.ranks, (std::vector<page::Run>{{0, 1, 8}}));
  EXPECT_EQ(std::vector({group.entered, group.ended, group.done}), (std::vector<std::uint64_t>{2, 1, 1}));
  ASSERT_EQ(record->entries.size(), 3U);
  EXPECT_EQ(record->entries[0].state, page::Record::completed);
  EXPECT_EQ(record->entries[0].ended_ns, 150);
  EXPECT_EQ(record->entries[1].peer, 5);
  EXPECT_EQ(record->entries[2].operation, Operation::barrier);
  EXPECT_EQ(record->collective(1, 2), &record->entries[2]);
  EXPECT_EQ(record->collective(1, 1), &record->entries[0]) << "and not the message of the same number";
  EXPECT_EQ(parse_page_head(page.bytes())->activity, record->activity);
  EXPECT_EQ(parse_page_head(page.bytes())->pid, 4711);
}

TEST(WorkerRecord, ReadsWhereTheProgramCalled) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  const page::Record& call = page.enter(1, Operation::all_reduce, 1, 100);
  page.enter(1, Operation::all_reduce, 2, 100);
  page.call_at(call, 42, "step\a");
  const auto record = parse(page);
  EXPECT_EQ(record->call_site_of(record->entries[0]), "train.py:42 in step ");
  EXPECT_EQ(record->call_site_of(record->entries[1]), "");
  MadePage changed(0, 2);
  changed.raw() = page.raw();
  changed.raw().call_sites[41].line = 43;
  EXPECT_TRUE(parse_worker_page(page.bytes(), changed.bytes())->call_sites.empty()) << "it is being written";
  page.raw().call_sites[41].id = 43;
  EXPECT_TRUE(parse(page)->call_sites.empty()) << "it is in another one's place";
}

TEST(WorkerRecord, TheRingKeepsTheLatestInTheirOrder) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  constexpr std::uint64_t count = page::max_records + 5;
  for (std::uint64_t i = 1; i <= count; ++i) page.end(page.enter(1, Operation::all_reduce, i, 100), 150);
  const auto record = parse(page);
  ASSERT_EQ(record->entries.size(), page::max_records);
  EXPECT_EQ(record->entries.front().sequence, 6U);
  EXPECT_EQ(record->entries.back().sequence, count);
}

TEST(WorkerRecord, TheWaitForAGroupIsRead) {
  MadePage page(0, 2);
  EXPECT_EQ(parse(page)->forming_ns, 0);
  page.raw().header.forming_ns = 500;
  EXPECT_EQ(parse(page)->forming_ns, 500);
  EXPECT_EQ(parse(page)->activity, (Activity{0, 0, 0, 1}));
  page.raw().header.forming_ns = -500;
  EXPECT_EQ(parse(page)->forming_ns, 0);
}

TEST(WorkerRecord, AKeyIsReadIfItIsTheSameInBothCopies) {
  MadePage page(0, 2);
  page.raw().header.key_since_ns = 500;
  page.raw().header.key = {'a', 'b'};
  EXPECT_EQ(parse(page)->key_since_ns, 500);
  EXPECT_EQ(parse(page)->key, "ab");
  EXPECT_EQ(parse(page)->activity, (Activity{0, 0, 0, 1}));
  MadePage other(0, 2);
  other.raw().header.key_since_ns = 500;
  other.raw().header.key = {'a', 'c'};
  EXPECT_EQ(parse_worker_page(page.bytes(), other.bytes())->key_since_ns, 0);
  page.raw().header.key_since_ns = -1;
  EXPECT_EQ(parse(page)->key_since_ns, 0) << "it is being written";
  EXPECT_EQ(parse(page)->key, "");
}

TEST(WorkerRecord, ConnectionsThatAreTheSameInBothCopiesAreRead) {
  MadePage page(0, 4);
  MadePage later(0, 4);
  for (MadePage* one : {&page, &later}) {
    one->raw().links[0] = {4711, 3, 0};
    one->raw().links[1] = {0, 2, 0};     // being written
    one->raw().links[2] = {4712, 4, 0};  // no rank of this world
    one->raw().links[page::max_links - 1] = {4713, 1, 0};
  }
  later.raw().links[page::max_links - 1].rank = 2;
  const auto record = parse_worker_page(page.bytes(), later.bytes());
  ASSERT_TRUE(record);
  EXPECT_EQ(record->links, (std::vector<page::Link>{{4711, 3, 0}}));
  EXPECT_EQ(parse_worker_page(later.bytes(), later.bytes())->links.size(), 2U);
}

TEST(WorkerRecord, EntriesBeingWrittenAreLeftOut) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  page.enter(1, Operation::all_reduce, 1, 100);
  page.raw().records[0].seqlock = 1;
  EXPECT_TRUE(parse(page)->entries.empty());
  page.raw().groups[0].seqlock = 3;
  EXPECT_TRUE(parse(page)->groups.empty());
}

TEST(WorkerRecord, EntriesChangedBetweenCopiesAreLeftOutUnlessTheyEnded) {
  MadePage first(0, 2);
  first.add_group(1, "default");
  page::Record& started = first.enter(1, Operation::all_reduce, 1, 100);
  MadePage second(0, 2);
  second.add_group(1, "default");
  page::Record& ended = second.enter(1, Operation::all_reduce, 1, 100);
  second.end(ended, 150);
  ended.on_device = page::Record::begun;
  const auto record = parse_worker_page(first.bytes(), second.bytes());
  ASSERT_EQ(record->entries.size(), 1U);
  EXPECT_EQ(record->entries[0].state, page::Record::completed);
  EXPECT_EQ(record->entries[0].on_device, page::Record::begun);
  ended.on_device = page::Record::begun + 1;
  EXPECT_EQ(parse_worker_page(first.bytes(), second.bytes())->entries.at(0).on_device,
            page::Record::not_known);
  started.sequence = 7;
  EXPECT_TRUE(parse_worker_page(first.bytes(), second.bytes())->entries.empty());
  EXPECT_EQ(parse_worker_page(first.bytes(), second.bytes())->groups.at(0).ended, 0U)
      << "a group's numbers are those of the first copy";
  second.raw().groups[0].state = page::Group::left;
  EXPECT_EQ(parse_worker_page(first.bytes(), second.bytes())->groups.size(), 1U);
  first.raw().groups[0].rank = 1;
  EXPECT_TRUE(parse_worker_page(first.bytes(), second.bytes())->groups.empty());
}

TEST(WorkerRecord, WithoutAPageThereIsNoRecord) {
  MadePage page(0, 2);
  EXPECT_TRUE(parse(page));
  EXPECT_FALSE(parse_worker_page({}, {}));
  EXPECT_FALSE(parse_worker_page(page.bytes().first(page.bytes().size() - 1), page.bytes()));
  EXPECT_FALSE(parse_page_head(page.bytes().first(100)));
  const auto with = [](auto change) {
    MadePage changed(0, 2);
    change(changed.raw().header);
    return parse(changed).has_value() || parse_page_head(changed.bytes()).has_value();
  };
  EXPECT_FALSE(with([](page::Header& h) { h.magic = 0; })) << "as it was made, before the worker writes";
  EXPECT_FALSE(with([](page::Header& h) { ++h.version; }));
  EXPECT_FALSE(with([](page::Header& h) { h.rank = 2; }));
  EXPECT_FALSE(with([](page::Header& h) { h.rank = -1; }));
  EXPECT_FALSE(with([](page::Header& h) { h.world_size = std::numeric_limits<int>::max(); }));
  EXPECT_FALSE(with([](page::Header& h) { h.owner = 0; }));
}

TEST(WorkerRecord, RanksOutsideTheWorldAreIgnored) {
  const auto runs = [](std::vector<page::Run> given) {
    MadePage page(0, 8);
    page.add_group(1, "g").runs = {};
    std::ranges::copy(given, page.raw().groups[0].runs.begin());
    return parse(page)->groups.at(0).ranks;
  };
  EXPECT_EQ(runs({{0, 2, 4}, {1, 1, 1}}).size(), 2U);
  EXPECT_EQ(runs({{0, 2, 5}}).size(), 0U);
  EXPECT_EQ(runs({{7, -1, 8}}).size(), 1U);
  EXPECT_EQ(runs({{7, -1, 9}}).size(), 0U);
  EXPECT_EQ(runs({{0, 0, 4'000'000'000U}}).size(), 0U);
  EXPECT_EQ(runs({{0, std::numeric_limits<int>::max(), 4'000'000'000U}}).size(), 0U);
  EXPECT_EQ(runs({{0, 1, 8}, {0, 1, 1}}).size(), 1U) << "more than its members";
}

TEST(WorkerRecord, ImpossibleNumbersAreBounded) {
  MadePage page(0, 2);
  page::Group& group = page.add_group(1, std::string(48, 'x'));
  group.entered = 3;
  group.failed = group.done = 1'000;
  auto parsed = parse(page)->groups.at(0);
  EXPECT_EQ(parsed.name, std::string(48, 'x')) << "without a zero byte behind it";
  EXPECT_EQ(parsed.ended, 3U);
  EXPECT_EQ(parsed.done, 3U);
  group.size = 3;
  EXPECT_TRUE(parse(page)->groups.empty());
}

TEST(WorkerRecord, ACollectiveThatFailedHasEnded) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  page.end(page.enter(1, Operation::all_reduce, 1, 100), 150);
  page.end(page.enter(1, Operation::all_reduce, 2, 200), 250, false);
  const auto ended_and_done = [&] {
    const WorkerRecord::Group group = parse(page)->groups.at(0);
    return std::pair(group.ended, group.done);
  };
  EXPECT_EQ(ended_and_done(), std::pair(std::uint64_t{2}, std::uint64_t{1}));
  page.end(page.enter(1, Operation::all_reduce, 3, 300), 350);
  EXPECT_EQ(ended_and_done(), std::pair(std::uint64_t{3}, std::uint64_t{3}));
  EXPECT_EQ(parse(page)->activity, (Activity{6, 0}));
}

// A call that was queued has a higher number, but an earlier time, than an operation that ended meanwhile.
TEST(WorkerRecord, TheLatestTimeIsThatOfTheLastMove) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  page.raw().header.joined_ns = 50;
  EXPECT_EQ(parse(page)->moved_ns, 50);
  page.end(page.enter(1, Operation::all_reduce, 1, 100), 400);
  page.enter(1, Operation::all_reduce, 2, 300);
  EXPECT_EQ(parse(page)->moved_ns, 400);
}

TEST(WorkerRecord, AMessageThatHasJustBegunIsNotOpen) {
  MadePage page(0, 2);
  ++page.raw().header.others_begun;  // told first
  EXPECT_EQ(parse(page)->activity, (Activity{0, 0}));
  ++page.raw().header.next;
  EXPECT_EQ(parse(page)->activity, (Activity{1, 0}));
}

// Any bytes are read without harm, and all values of the record are within their bounds.
TEST(WorkerRecord, SurvivesAnyBytes) {
  std::mt19937_64 random(20261121);
  std::size_t groups = 0;
  std::size_t entries = 0;
  for (int i = 0; i < 60; ++i) {
    MadePage page(0, 8);
    page.add_group(1, "default");
    for (std::uint64_t n = 1; n <= 20; ++n) page.enter(1, Operation::all_reduce, n, 100);
    std::vector<std::byte> bytes(page.bytes().begin(), page.bytes().end());
    const std::size_t kept = i % 2 == 0 ? sizeof(page::Header) : 64;
    for (std::size_t at = kept; at < bytes.size(); at += 8) {
      // From a few words of a page to nearly all.
      if (i % 4 < 3 && random() % 16 != 0) continue;
      // Small numbers and those at the limits are likely.
      std::uint64_t word = random();
      const auto draw = word % 8;
      if (draw < 3) word &= 0xff000000ff;
      if (draw == 3) word = ~std::uint64_t{0};
      if (draw == 4) continue;
      std::memcpy(bytes.data() + at, &word, sizeof word);
    }
    const auto record = parse_worker_page(bytes, bytes);
    ASSERT_TRUE(record);
    groups += record->groups.size();
    entries += record->entries.size();
    for (const auto& group : record->groups) {
      EXPECT_LE(group.done, group.entered);
      EXPECT_LE(group.size, 8U);
      for (const page::Run& run : group.ranks) EXPECT_LE(run.count, group.size);
    }
    for (const auto& entry : record->entries) {
      EXPECT_LT(static_cast<std::size_t>(entry.operation), page::operation_names.size());
      EXPECT_GE(between(entry.created_ns, entry.ended_ns), Duration(0));
    }
  }
  EXPECT_GT(groups, 0U) << "else nothing was tried";
  EXPECT_GT(entries, 0U);
}

TEST(WorkerRecord, TimesThatAreNotInOrderMakeNoDuration) {
  EXPECT_EQ(between(5, 8), Duration(3));
  EXPECT_EQ(between(8, 5), Duration(0));
  EXPECT_EQ(between(-1, 5), Duration(0));
  EXPECT_EQ(between(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()),
            Duration(0));
}

TEST(WorkerRecord, ReportsTheRankWhoseEndBrokeAGroup) {
  MadePage made(1, 4);
  made.add_group(1, "default");
  page::Header& header = made.raw().header;
  EXPECT_EQ(describe_loss(*parse(made)), "");
  header.lost = 3;
  header.loss = page::Loss::left;
  header.loss_group = 1;
  header.loss_operation = page::Operation::all_reduce;
  header.loss_sequence = 258;
  header.left_in_exception = 1;
  EXPECT_EQ(parse(made)->lost.rank, 2);
  EXPECT_TRUE(parse(made)->left_in_exception);
  EXPECT_EQ(describe_loss(*parse(made)), "left the group at all_reduce #258 of group default");
  header.loss = page::Loss::left_in_exception;
  EXPECT_EQ(describe_loss(*parse(made)),
            "left the group at all_reduce #258 of group default while an exception was on its way");
  header.loss = page::Loss::died;
  header.loss_group = 7;
  EXPECT_EQ(describe_loss(*parse(made)), "closed its connections at all_reduce #258");
  header.lost = 5;
  EXPECT_EQ(parse(made)->lost.rank, -1) << "there is no such rank";
  header.lost = 3;
  header.loss = static_cast<page::Loss>(9);
  EXPECT_EQ(parse(made)->lost.rank, -1);
}

}  // namespace
}  // namespace dlaunch::agent
