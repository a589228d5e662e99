// The collectives in shared memory: every result has the bits that the collectives over messages give.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/collectives/any_call.h"
#include "tests/runtime/collectives/values.h"
#include "tests/runtime/shared_collectives/shared_ranks.h"

namespace dlaunch::internal {
namespace {

using namespace test;

// `in_place`: the ranks read each other's values in a heap; the others' data lie elsewhere.
enum class Moved : std::uint8_t { directly, through_staging, in_place };

// Where a rank has its values for a call.
struct SharedValues {
  SharedValues(const GroupMemory& memory, const Call& call, Moved moved) {
    const std::size_t size = call.count * size_of(call.dtype) * memory.size();
    if (moved != Moved::in_place || size == 0) return;
    std::string why;
    piece = memory.allocate(size, why);
    if (!piece) throw std::runtime_error(why);
    place = {piece.get(), size};
  }

  std::shared_ptr<std::byte> piece;
  std::span<std::byte> place;  // empty: anywhere
};

Results in_memory(const std::vector<Call>& calls, int size, Moved moved) {
  Results results(static_cast<std::size_t>(size));
  SharedRanks ranks(size);
  if (moved == Moved::through_staging) ranks.forbid_direct_reads();
  expect_success(ranks.run([&](int rank, GroupMemory& memory) {
    Workspace workspace;
    ReductionOrders orders;
    for (const Call& call : calls) {
      const SharedValues values(memory, call, moved);
      const CollectiveFingerprint fingerprint = fingerprint_of(call);
      SharedCall shared(memory, workspace, orders, fingerprint, soon());
      const std::vector<std::byte> result = make_call(shared, call, rank, size, values.place);
      auto& all = results[static_cast<std::size_t>(rank)];
      all.insert(all.end(), result.begin(), result.end());
    }
  }));
  return results;
}

void expect_same_bits(const std::vector<Call>& calls, int size, Moved moved = Moved::directly) {
  test::expect_same_bits(in_memory(calls, size, moved), over_messages(calls, size));
}

// Floats: none, in a cell and beyond, on both sides of the limits of short data, several rounds, and lengths
// at which the algorithms over messages change.
const std::size_t counts[] = {0, 1, 24, 25, 1000, 4096, 4097, 8192, 8193, 16385};
const std::size_t several_rounds = 70001;
const std::size_t long_count = 300007;

class AtWorldSize : public testing::TestWithParam<int> {};
#if defined(__SANITIZE_THREAD__)  // which makes each wait and each wake many times slower
INSTANTIATE_TEST_SUITE_P(SharedCollectives, AtWorldSize, testing::Values(2, 3));
#else
INSTANTIATE_TEST_SUITE_P(SharedCollectives, AtWorldSize, testing::Values(2, 3, 4, 5, 8));
#endif

TEST_P(AtWorldSize, ResultsHaveTheBitsOfThoseOverMessages) {
  std::vector<Call> calls;
  for (const CollectiveKind kind : all_kinds) {
    for (const std::size_t count : counts) {
      calls.push_back({.kind = kind, .count = count, .root = static_cast<int>(count) % GetParam()});
    }
  }
  expect_same_bits(calls, GetParam());
}

TEST_P(AtWorldSize, LongDataHaveThemHoweverTheyMove) {
  std::vector<Call> calls;
  for (const CollectiveKind kind : all_kinds) calls.push_back({.kind = kind, .count = several_rounds});
  if (GetParam() == 2) calls.push_back({.kind = CollectiveKind::all_reduce, .count = long_count});
  expect_same_bits(calls, GetParam(), Moved::directly);
  expect_same_bits(calls, GetParam(), Moved::through_staging);
  expect_same_bits(calls, GetParam(), Moved::in_place);
}

TEST_P(AtWorldSize, AllDtypesAndReductionsHaveThem) {
  std::vector<Call> calls;
  for (const DType dtype : test::all_dtypes) {
    for (const ReduceOp op : test::all_ops) {
      if (why_not_allowed(dtype, op)) continue;
      // Short ones everywhere, long ones with two ranks and with five.
      for (const std::size_t count : {std::size_t{5}, std::size_t{5003}}) {
        for (const CollectiveKind kind :
             {CollectiveKind::all_reduce, CollectiveKind::reduce, CollectiveKind::reduce_scatter}) {
          if (count == 5 || GetParam() == 2 || GetParam() == 5) calls.push_back({kind, count, dtype, op, 1});
        }
      }
    }
  }
  expect_same_bits(calls, GetParam());
  expect_same_bits(calls, GetParam(), Moved::in_place);
}

// Some tables of an all_to_all are in cells, others in eager areas, and some of their blocks in neither.
TEST_P(AtWorldSize, BlocksOfDifferentLengthsFindTheirReceivers) {
  const auto length = [](int from, int to, int call) {
    constexpr std::size_t lengths[] = {4, 0, 8, 3000, 4, 90'000};
    return lengths[static_cast<std::size_t>(from + (call + 1) * to + call) % (call % 2 == 0 ? 3 : 6)];
  };
  const auto content = [](int from, int to) { return static_cast<std::byte>(16 * from + to + 1); };
  const int size = GetParam();
  SharedRanks ranks(size);
  expect_success(ranks.run([&](int rank, GroupMemory& memory) {
    Workspace workspace;
    ReductionOrders orders;
    for (int call = 0; call < 60; ++call) {
      std::vector<std::vector<std::byte>> sent;
      std::vector<std::vector<std::byte>> received;
      for (int peer = 0; peer < size; ++peer) {
        sent.emplace_back(length(rank, peer, call), content(rank, peer));
        received.emplace_back(length(peer, rank, call));
      }
      const CollectiveFingerprint fingerprint{.kind = CollectiveKind::all_to_all};
      SharedCall(memory, workspace, orders, fingerprint, soon())
          .all_to_all(std::vector<std::span<std::byte>>(received.begin(), received.end()),
                      std::vector<std::span<const std::byte>>(sent.begin(), sent.end()));
      for (int peer = 0; peer < size; ++peer) {
        const std::vector<std::byte> wanted(length(peer, rank, call), content(peer, rank));
        EXPECT_EQ(received[static_cast<std::size_t>(peer)], wanted) << "call " << call << ", from " << peer;
      }
    }
  }));
}

// The ranks that have their values in the heap learn that others do not.
TEST_P(AtWorldSize, OnlyOneRankElsewhereMeansThatAllCopy) {
  const Call call{.kind = CollectiveKind::all_reduce, .count = several_rounds};
  const int size = GetParam();
  Results results(static_cast<std::size_t>(size));
  SharedRanks ranks(size);
  expect_success(ranks.run([&](int rank, GroupMemory& memory) {
    Workspace workspace;
    ReductionOrders orders;
    const SharedValues values(memory, call, rank == 1 ? Moved::directly : Moved::in_place);
    const CollectiveFingerprint fingerprint = fingerprint_of(call);
    SharedCall shared(memory, workspace, orders, fingerprint, soon());
    results[static_cast<std::size_t>(rank)] = make_call(shared, call, rank, size, values.place);
  }));
  test::expect_same_bits(results, over_messages({call}, size));
}

TEST_P(AtWorldSize, CallsInAnyOrderFollowEachOther) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  std::vector<Call> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back({.kind = all_kinds[random() % std::size(all_kinds)],
                     .count = random() % 3 == 0 ? random() % 40000 : random() % 300,
                     .root = static_cast<int>(random() % static_cast<unsigned>(GetParam()))});
  }
  expect_same_bits(calls, GetParam());
  expect_same_bits(calls, GetParam(), Moved::in_place);
}

// --- Failures

void make(GroupMemory& memory, const Call& call, int rank, int size, Deadline deadline = soon(),
          Moved moved = Moved::directly) {
  Workspace workspace;
  ReductionOrders orders;
  const SharedValues values(memory, call, moved);
  const CollectiveFingerprint fingerprint = fingerprint_of(call);
  SharedCall shared(memory, workspace, orders, fingerprint, deadline);
  make_call(shared, call, rank, size, values.place);
}

TEST(SharedCollectives, DifferentCallsAreAnErrorThatShowsBoth) {
  SharedRanks ranks(2);
  const auto texts = messages(ranks.run([&](int rank, GroupMemory& memory) {
    make(memory, {.kind = CollectiveKind::all_reduce, .count = rank == 0 ? 10U : 100000U}, rank, 2);
  }));
  for (const std::string& text : texts) {
    EXPECT_NE(text.find("the ranks call different operations"), std::string::npos) << text;
    EXPECT_NE(text.find("all_reduce(10 x float32, sum)"), std::string::npos) << text;
    EXPECT_NE(text.find("all_reduce(100000 x float32, sum)"), std::string::npos) << text;
  }
}

// A rank that only sends notices the difference when it would overwrite what the others have not read.
TEST(SharedCollectives, ASenderLearnsOfAnotherCallLater) {
  SharedRanks ranks(2);
  const auto texts = messages(ranks.run([&](int rank, GroupMemory& memory) {
    for (std::size_t i = 0; i < shared::lead + 2; ++i) {
      make(memory, {.kind = CollectiveKind::broadcast, .count = 1, .root = rank}, rank, 2);
    }
  }));
  for (const std::string& text : texts) {
    EXPECT_NE(text.find("the ranks call different operations"), std::string::npos) << text;
  }
}

TEST(SharedCollectives, AWaitEndsAtItsDeadlineInEveryKindOfCall) {
  for (const CollectiveKind kind : all_kinds) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{100000}}) {
      SharedRanks ranks(2);
      // Rank 1 does not come; rank 0 is the one that waits in all calls.
      const bool reads = kind != CollectiveKind::broadcast && kind != CollectiveKind::scatter;
      const Call call{.kind = kind, .count = count, .root = reads ? 0 : 1};
      const auto texts = messages(ranks.run([&](int rank, GroupMemory& memory) {
        if (rank == 0) make(memory, call, rank, 2, deadline_after(std::chrono::milliseconds(20)));
      }));
      EXPECT_NE(texts[0].find("it did not send a message before the deadline"), std::string::npos)
          << texts[0];
    }
  }
}

TEST(SharedCollectives, AWaitEndsWhenARankIsLost) {
  for (const CollectiveKind kind : all_kinds) {
    SharedRanks ranks(3);
    const Call call{.kind = kind, .count = 100000, .root = 2};
    const auto texts = messages(ranks.run([&](int rank, GroupMemory& memory) {
      if (rank == 2) return ranks.lose(2);
      make(memory, call, rank, 3);
    }));
    for (const int rank : {0, 1}) {
      EXPECT_NE(texts[static_cast<std::size_t>(rank)].find("it died"), std::string::npos)
          << texts[static_cast<std::size_t>(rank)];
    }
  }
}

// Rank 2 does all that the others wait for, but gives up before they have read its values: those may be
// others by then.
TEST(SharedCollectives, ValuesOfARankThatHasGivenUpAreNoResult) {
  SharedRanks ranks(3);
  const Call call{.kind = CollectiveKind::all_reduce, .count = 20000};
  const auto errors = ranks.run([&](int rank, GroupMemory& memory) {
    if (rank != 2) return make(memory, call, rank, 3, soon(), Moved::in_place);
    const shared::Cell& first = ranks.segment()->control(0).cells[1];
    while (first.stamp.load(std::memory_order_acquire) != 1) std::this_thread::yield();
    const SharedValues values(memory, call, Moved::in_place);
    const auto heap = SharedHeap::containing(values.place);
    const std::uint64_t words[] = {heap->identity(), heap->offset_of(values.place.data())};
    memory.begin(first.fingerprint, soon());
    std::memcpy(memory.compose(sizeof words), words, sizeof words);
    memory.publish();
    memory.meet();
    memory.set_filled(0);
    memory.withdraw();
    memory.set_drained(0);
    memory.set_all_drained();
  });
  for (const int rank : {0, 1}) {
    try {
      const std::exception_ptr error = errors[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(error) << "a result on rank " << rank;
      std::rethrow_exception(error);
    } catch (const DistNetworkError& error) {
      // Rank 2, or the other rank, if that one has given up for it by now.
      EXPECT_NE(error.context().peer, rank);
    }
  }
}

// What no rank writes there.
TEST(SharedCollectives, AnOffsetBeyondTheHeapIsRejected) {
  for (const std::uint64_t offset :
       {~std::uint64_t{0}, std::uint64_t{2} * shared::most_heap_part - 4, std::uint64_t{2}}) {
    SharedRanks ranks(2);
    const Call call{.kind = CollectiveKind::all_reduce, .count = 20000};
    const auto texts = messages(ranks.run([&](int rank, GroupMemory& memory) {
      if (rank == 0) return make(memory, call, rank, 2, soon(), Moved::in_place);
      const shared::Cell& first = ranks.segment()->control(0).cells[1];
      while (first.stamp.load(std::memory_order_acquire) != 1) std::this_thread::yield();
      const SharedValues values(memory, call, Moved::in_place);
      const std::uint64_t words[] = {SharedHeap::containing(values.place)->identity(), offset};
      memory.begin(first.fingerprint, soon());
      std::memcpy(memory.compose(sizeof words), words, sizeof words);
      memory.publish();
    }));
    EXPECT_NE(texts[0].find("values that no rank writes"), std::string::npos) << texts[0];
  }
}

TEST(SharedCollectives, WithdrawnMemoryIsAnErrorThatNamesItsRank) {
  SharedRanks ranks(2);
  ranks.memory(0).withdraw();
  try {
    ranks.memory(1).throw_if_withdrawn(0);
    ADD_FAILURE() << "no error";
  } catch (const DistNetworkError& error) {
    EXPECT_EQ(error.context().peer, 0);
    EXPECT_NE(std::string(error.what()).find("its memory can no longer be read"), std::string::npos);
  }
}

TEST(SharedCollectives, ValuesInTheHeapNeedNoStaging) {
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter}) {
    for (const Moved moved : {Moved::in_place, Moved::directly}) {
      SharedRanks ranks(2);
      expect_success(ranks.run([&](int rank, GroupMemory& memory) {
        make(memory, {.kind = kind, .count = several_rounds}, rank, 2, soon(), moved);
      }));
      EXPECT_EQ(GroupMemory::staging_in_use() == 0, moved == Moved::in_place);
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
