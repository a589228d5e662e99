// The collectives in shared memory: every result has the bits that the collectives over messages give.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/all_to_all.h"
#include "runtime/collectives/barrier.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/coalesced.h"
#include "runtime/collectives/gather.h"
#include "runtime/collectives/message_header.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/reduce_to_root.h"
#include "tests/runtime/collectives/values.h"
#include "tests/runtime/shared_collectives/shared_ranks.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::on_ranks;
using test::SharedRanks;
using test::soon;

// A call that all ranks make, with other values on each.
struct Call {
  CollectiveKind kind;
  std::size_t count;  // elements of a block, or of the tensor
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
};

// Any bits, so with floats also NaNs and zeros of both signs; most floats are such that the order of a sum
// shows.
std::vector<std::byte> random_bytes_of(const Call& call, int rank, std::size_t blocks) {
  std::vector<std::byte> bytes(call.count * blocks * size_of(call.dtype));
  std::uint64_t state = mixed(static_cast<std::uint64_t>(rank), call.count);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof state) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    std::uint64_t word = state ^ state >> 29U;
    if (call.dtype == DType::boolean) word &= 0x0101010101010101U;
    // Exponents around that of 1, but for one float in 16.
    if (call.dtype == DType::float32 && word % 16 != 0)
      word = (word & 0x83ffffff83ffffffU) | 0x3c0000003c000000U;
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
  }
  return bytes;
}

// Makes the call on one rank, over messages or in memory; returns all that the rank has afterwards.
template <class Over>
std::vector<std::byte> make_call(Over& over, const Call& call, int rank, int size) {
  using Bytes = std::span<std::byte>;
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::byte> values = random_bytes_of(call, rank, ranks);
  std::vector<std::byte> other(values.size());
  const std::size_t block = call.count * size_of(call.dtype);
  const Bytes first = Bytes(values).first(block);
  const auto blocks_of = [&]<class Span>(std::vector<std::byte>& bytes, Span*) {
    std::vector<Span> blocks;
    for (std::size_t i = 0; i < ranks; ++i) blocks.push_back(Bytes(bytes).subspan(i * block, block));
    return blocks;
  };
  const auto outputs = blocks_of(other, static_cast<Bytes*>(nullptr));
  const auto inputs = blocks_of(values, static_cast<std::span<const std::byte>*>(nullptr));
  const Reduction reduction{call.op, 0.375};
  const bool is_root = rank == call.root;
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      all_reduce(over, first, call.dtype, reduction);
      break;
    case CollectiveKind::broadcast:
      broadcast(over, first, call.root);
      break;
    case CollectiveKind::all_gather:
      all_gather(over, outputs, first);
      break;
    case CollectiveKind::barrier:
      barrier(over);
      break;
    case CollectiveKind::reduce:
      reduce_to_root(over, first, call.dtype, reduction, call.root);
      break;
    case CollectiveKind::gather:
      gather(over, is_root ? std::span(outputs) : std::span<const Bytes>(), first, call.root);
      break;
    case CollectiveKind::scatter:
      scatter(over, outputs[0], is_root ? std::span(inputs) : std::span<const std::span<const std::byte>>(),
              call.root);
      break;
    case CollectiveKind::reduce_scatter:
      reduce_scatter(over, outputs[0], inputs, call.dtype, reduction);
      break;
    case CollectiveKind::all_to_all:
      all_to_all(over, outputs, inputs);
      break;
    case CollectiveKind::all_reduce_coalesced:
      all_reduce_coalesced(over, blocks_of(values, static_cast<Bytes*>(nullptr)), call.dtype, reduction);
      break;
  }
  values.insert(values.end(), other.begin(), other.end());
  return values;
}

CollectiveFingerprint fingerprint_of(const Call& call) {
  return {.kind = call.kind, .dtype = call.dtype, .op = call.op, .root = call.root, .count = call.count};
}

using Results = std::vector<std::vector<std::byte>>;  // by rank: those of all calls

Results over_messages(const std::vector<Call>& calls, int size) {
  Results results(static_cast<std::size_t>(size));
  expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    Workspace workspace;
    std::uint64_t number = 0;
    for (const Call& call : calls) {
      Exchange exchange(*transport, workspace, fingerprint_of(call), ++number, soon());
      const std::vector<std::byte> result = make_call(exchange, call, rank, size);
      auto& all = results[static_cast<std::size_t>(rank)];
      all.insert(all.end(), result.begin(), result.end());
    }
  }));
  return results;
}

enum class Moved : std::uint8_t { directly, through_staging };

Results in_memory(const std::vector<Call>& calls, int size, Moved moved) {
  Results results(static_cast<std::size_t>(size));
  SharedRanks ranks(size);
  if (moved == Moved::through_staging) ranks.forbid_direct_reads();
  expect_success(ranks.run([&](int rank, GroupMemory& memory) {
    Workspace workspace;
    ReductionOrders orders;
    for (const Call& call : calls) {
      const CollectiveFingerprint fingerprint = fingerprint_of(call);
      SharedCall shared(memory, workspace, orders, fingerprint, soon());
      const std::vector<std::byte> result = make_call(shared, call, rank, size);
      auto& all = results[static_cast<std::size_t>(rank)];
      all.insert(all.end(), result.begin(), result.end());
    }
  }));
  return results;
}

void expect_same_bits(const std::vector<Call>& calls, int size, Moved moved = Moved::directly) {
  const Results wanted = over_messages(calls, size);
  const Results found = in_memory(calls, size, moved);
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    ASSERT_EQ(found[rank].size(), wanted[rank].size());
    if (std::memcmp(found[rank].data(), wanted[rank].data(), wanted[rank].size()) == 0) continue;
    const auto differ = std::ranges::mismatch(found[rank], wanted[rank]).in1 - found[rank].begin();
    ADD_FAILURE() << "rank " << rank << ": byte " << differ << " of " << wanted[rank].size();
  }
}

const CollectiveKind all_kinds[] = {CollectiveKind::all_reduce, CollectiveKind::broadcast,
                                    CollectiveKind::all_gather, CollectiveKind::barrier,
                                    CollectiveKind::reduce,     CollectiveKind::gather,
                                    CollectiveKind::scatter,    CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_to_all, CollectiveKind::all_reduce_coalesced};

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
}

// --- Failures

std::vector<std::string> messages(const std::vector<std::exception_ptr>& errors) {
  std::vector<std::string> texts;
  for (const std::exception_ptr& error : errors) texts.push_back(error ? message_of(error) : "");
  return texts;
}

void make(GroupMemory& memory, const Call& call, int rank, int size, Deadline deadline = soon()) {
  Workspace workspace;
  ReductionOrders orders;
  const CollectiveFingerprint fingerprint = fingerprint_of(call);
  SharedCall shared(memory, workspace, orders, fingerprint, deadline);
  make_call(shared, call, rank, size);
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
    for (int i = 0; i < 10; ++i) {
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

}  // namespace
}  // namespace dlaunch::internal
