// The collectives over ranks that are threads: every world size up to 9, sizes on both sides of every limit
// in the algorithms, results compared with one plain loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <complex>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/barrier.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/reduce/reduce.h"
#include "tests/runtime/collectives/thread_transport.h"
#include "tests/runtime/collectives/values.h"
#include "tests/runtime/point_to_point/eager_channel_cases.h"

namespace dlaunch::internal {
namespace {

using test::all_dtypes;
using test::all_ops;
using test::expect_success;
using test::on_ranks;
using test::soon;
using test::with_type;

// One rank's side of a call, as the backend makes it.
struct Side {
  explicit Side(std::unique_ptr<Transport> its_transport, const CollectiveFingerprint& call = {})
      : transport(std::move(its_transport)), exchange(*transport, workspace, call, 1, soon()) {}

  std::unique_ptr<Transport> transport;
  Workspace workspace;
  Exchange exchange;
};

template <class T>
std::span<std::byte> bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Lengths in floats: none, fewer than ranks, fragment_limit (8192 floats), eager_limit (16384) and their
// neighbours, several segments of the ring, lengths that do not divide evenly.
const std::vector<std::size_t> lengths = {0,    1,    2,     3,     7,     64,     1000,   8191,
                                          8192, 8193, 16384, 16385, 20011, 300007, 1200001};

float value_of(int rank, std::size_t index) {
  return static_cast<float>(static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % 101) - 50);
}

std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, i);
  return values;
}

std::vector<float> sum_of_all(int size, std::size_t count) {
  std::vector<float> sum(count);
  for (int rank = 0; rank < size; ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += value_of(rank, i);
  }
  return sum;
}

class AtWorldSize : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Collectives, AtWorldSize, testing::Range(1, 10));

TEST_P(AtWorldSize, AllReduceAddsEverything) {
  for (const std::size_t count : lengths) {
    SCOPED_TRACE(count);
    const std::vector<float> wanted = sum_of_all(GetParam(), count);
    expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      std::vector<float> values = values_of(side.transport->rank(), count);
      all_reduce(side.exchange, bytes(values), DType::float32, {});
      EXPECT_EQ(values, wanted);
    }));
  }
}

std::vector<std::exception_ptr> on_mailbox(int size, const std::function<void(Transport&)>& body) {
  return on_ranks(size, [&](std::unique_ptr<Transport> transport) { body(*transport); });
}

TEST(MailboxEagerChannel, KeepsTheOrder) { test::channels_keep_the_order(on_mailbox); }
TEST(MailboxEagerChannel, HoldsASenderBack) { test::channels_hold_a_sender_back(on_mailbox); }
TEST(MailboxEagerChannel, EndsWithTheTransport) { test::channels_end_with_the_transport(on_mailbox); }
TEST(MailboxEagerChannel, KeepsWhatALeaverSent) { test::channels_keep_what_a_leaver_sent(on_mailbox); }

void all_reduce_by_doubling(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op) {
  ShortAllReduce parts(exchange, values, dtype, {op, 1.0});
  parts.begin();
  parts.finish();
}

using Algorithm = void (*)(Exchange&, std::span<std::byte>, DType, ReduceOp);

TEST_P(AtWorldSize, AllAlgorithmsAddTheSame) {
  for (const Algorithm algorithm : {&all_reduce_by_doubling, &all_reduce_by_halving, &all_reduce_by_ring}) {
    if (algorithm == &all_reduce_by_halving && !std::has_single_bit(static_cast<unsigned>(GetParam())))
      continue;
    for (const std::size_t count : {0U, 1U, 2U, 5U, 8U, 9U, 100U, 8192U, 8193U, 16384U, 65536U}) {
      if (GetParam() == 1) continue;  // neither is used then
      if (algorithm == &all_reduce_by_doubling && !ShortAllReduce::suits(GetParam(), count * sizeof(float)))
        continue;
      const std::vector<float> wanted = sum_of_all(GetParam(), count);
      expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
        Side side(std::move(transport));
        std::vector<float> values = values_of(side.transport->rank(), count);
        algorithm(side.exchange, bytes(values), DType::float32, ReduceOp::sum);
        EXPECT_EQ(values, wanted) << count;
      }));
    }
  }
}

TEST_P(AtWorldSize, AllReduceKnowsEveryTypeAndOperation) {
  const int size = GetParam();
  constexpr std::size_t count = 37;
  for (const DType dtype : all_dtypes) {
    for (const ReduceOp op : all_ops) {
      if (why_not_allowed(dtype, op)) continue;
      SCOPED_TRACE(std::string(to_string(op)) + " of " + std::string(to_string(dtype)));
      with_type(dtype, [&]<class T>(T*) {
        const auto input = [&](int rank) {
          std::vector<std::byte> raw(count * sizeof(T));
          for (std::size_t i = 0; i < count; ++i) {
            // Small enough that products of nine fit every type, and multiples of the
            // world size for the average.
            int number = static_cast<int>((i + static_cast<std::size_t>(rank)) % 2) +
                         (op == ReduceOp::product ? 1 : 0);
            if (dtype == DType::boolean) number %= 2;
            if (op == ReduceOp::avg) number *= size;
            const T value = test::to_value<T>(number);
            std::memcpy(raw.data() + i * sizeof(T), &value, sizeof value);
          }
          return raw;
        };
        const Reduction reduction{op, 2.0};
        std::vector<std::vector<std::byte>> inputs;
        for (int rank = 0; rank < size; ++rank) inputs.push_back(input(rank));
        const std::vector<std::byte> wanted = test::reduction_of(inputs, dtype, reduction);
        expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
          Side side(std::move(transport));
          std::vector<std::byte> values = input(side.transport->rank());
          all_reduce(side.exchange, values, dtype, reduction);
          EXPECT_EQ(values, wanted);
        }));
      });
    }
  }
}

// Values whose sum depends on the order of the additions.
TEST_P(AtWorldSize, AllReduceGivesTheSameBitsEverywhere) {
  const int size = GetParam();
  for (const std::size_t count : {1000U, 50000U}) {
    std::vector<std::vector<float>> results(static_cast<std::size_t>(size));
    expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      const int rank = side.transport->rank();
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) {
        values[i] =
            (rank % 2 == 0 ? 1e6F : -1e6F) / static_cast<float>(i + 3) + static_cast<float>(rank) * 1e-3F;
      }
      values[0] = std::numeric_limits<float>::quiet_NaN();
      values[1] = rank == 0 ? 0.0F : -0.0F;
      all_reduce(side.exchange, bytes(values), DType::float32, {});
      results[static_cast<std::size_t>(rank)] = values;
    }));
    for (const auto& result : results) EXPECT_TRUE(test::same_bits(result, results[0]));
  }
}

TEST_P(AtWorldSize, BroadcastCopiesTheSource) {
  const int size = GetParam();
  for (int src = 0; src < size; ++src) {
    for (const std::size_t count : {0U, 1U, 8193U, 16384U, 16385U, 700001U}) {
      if (count > 20000 && src != size / 2) continue;  // long ones from one source are enough
      expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
        Side side(std::move(transport));
        std::vector<float> values = values_of(side.transport->rank(), count);
        broadcast(side.exchange, bytes(values), src);
        EXPECT_TRUE(test::same_bits(values, values_of(src, count)));
      }));
    }
  }
}

TEST_P(AtWorldSize, AllGatherCollectsBlocksOfDifferentSizes) {
  const int size = GetParam();
  for (const std::size_t base : {std::size_t{0}, std::size_t{3}, std::size_t{9000}}) {
    const auto length = [&](int rank) {
      return static_cast<std::size_t>(rank) * (base + 1);
    };  // rank 0: nothing
    for (const bool in_place : {false, true}) {
      expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
        Side side(std::move(transport));
        const int own = side.transport->rank();
        std::vector<std::vector<float>> outputs;
        outputs.reserve(static_cast<std::size_t>(size));
        for (int rank = 0; rank < size; ++rank) outputs.emplace_back(length(rank), -1.0F);
        std::vector<float> input = values_of(own, length(own));
        if (in_place) outputs[static_cast<std::size_t>(own)] = input;
        std::vector<std::span<std::byte>> places;
        places.reserve(outputs.size());
        for (auto& output : outputs) places.push_back(bytes(output));
        all_gather(side.exchange, places, in_place ? places[static_cast<std::size_t>(own)] : bytes(input));
        for (int rank = 0; rank < size; ++rank) {
          EXPECT_TRUE(
              test::same_bits(outputs[static_cast<std::size_t>(rank)], values_of(rank, length(rank))));
        }
      }));
    }
  }
}

// The longest block determines the number of segments of all: those of the others fill the eager channel
// several times.
TEST_P(AtWorldSize, ReduceScatterOfOneLongBlockAndShortOnes) {
  const int size = GetParam();
  for (const std::size_t others : {0U, 100U, 100'000U}) {
    const auto length = [&](int rank) { return rank == 0 ? std::size_t{2'400'001} : others; };
    expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      const int own = side.transport->rank();
      std::vector<std::vector<float>> blocks;
      for (int rank = 0; rank < size; ++rank) blocks.push_back(values_of(own, length(rank)));
      std::vector<std::span<const std::byte>> inputs;
      for (auto& block : blocks) inputs.push_back(bytes(block));
      std::vector<float> output(length(own));
      reduce_scatter(side.exchange, bytes(output), inputs, DType::float32, {});
      EXPECT_TRUE(test::same_bits(output, sum_of_all(size, length(own))));
    }));
  }
}

TEST_P(AtWorldSize, BarrierWaitsForAll) {
  std::atomic<int> arrived = 0;
  expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
    Side side(std::move(transport));
    ++arrived;
    barrier(side.exchange);
    EXPECT_EQ(arrived, GetParam());
  }));
}

// Every rank gets the error, whose first sentence states the difference.
void expect_mismatch(const std::vector<std::exception_ptr>& errors, const std::string& one,
                     const std::string& other) {
  bool both_named = false;
  for (const std::exception_ptr& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), DistNetworkError) << message_of(error);
    const std::string text = message_of(error);
    both_named |= text.find(one) != std::string::npos && text.find(other) != std::string::npos;
  }
  EXPECT_TRUE(both_named) << message_of(errors[0]);
}

// Rank 1 makes another call; the ranks give up together, as the backend makes them do.
std::vector<std::exception_ptr> disagree(
    int size, const CollectiveFingerprint& most, const CollectiveFingerprint& one,
    const std::function<void(Exchange&, const CollectiveFingerprint&)>& act) {
  return on_ranks(size, [&](std::unique_ptr<Transport> transport) {
    const CollectiveFingerprint& call = transport->rank() == 1 ? one : most;
    Side side(std::move(transport), call);
    try {
      act(side.exchange, call);
    } catch (const DistError& e) {
      side.transport->abort(e.what());
      throw;
    }
  });
}

void act_as_called(Exchange& exchange, const CollectiveFingerprint& call) {
  std::vector<std::byte> memory(call.count * size_of(call.dtype));
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      return all_reduce(exchange, memory, call.dtype, {call.op, 1.0});
    case CollectiveKind::broadcast:
      return broadcast(exchange, memory, call.root);
    case CollectiveKind::barrier:
      return barrier(exchange);
    case CollectiveKind::all_gather: {
      std::vector<std::span<std::byte>> parts;
      parts.reserve(static_cast<std::size_t>(exchange.size()));
      const std::size_t each = memory.size() / static_cast<std::size_t>(exchange.size());
      for (int i = 0; i < exchange.size(); ++i) {
        parts.push_back(std::span(memory).subspan(static_cast<std::size_t>(i) * each, each));
      }
      return all_gather(exchange, parts, parts[static_cast<std::size_t>(exchange.rank())]);
    }
    case CollectiveKind::reduce:
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_reduce_coalesced:
      break;
  }
}

TEST(Mismatch, IsFoundWhateverDiffers) {
  const CollectiveFingerprint base{
      .kind = CollectiveKind::all_reduce, .dtype = DType::float32, .op = ReduceOp::sum, .count = 1000};
  for (const int size : {2, 3, 4, 5}) {
    const auto differing = [&](auto change) {
      CollectiveFingerprint call = base;
      change(call);
      const auto errors = disagree(size, base, call, act_as_called);
      expect_mismatch(errors, to_string(base), to_string(call));
    };
    differing([](CollectiveFingerprint& c) { c.count = 10; });
    differing([](CollectiveFingerprint& c) { c.count = 1001; });
    differing([](CollectiveFingerprint& c) { c.count = 500000; });  // another algorithm
    differing([](CollectiveFingerprint& c) { c.dtype = DType::float64; });
    differing([](CollectiveFingerprint& c) { c.dtype = DType::int32; });  // the same number of bytes
    differing([](CollectiveFingerprint& c) { c.op = ReduceOp::max; });
    differing([](CollectiveFingerprint& c) { c.kind = CollectiveKind::barrier; });
    differing([](CollectiveFingerprint& c) { c.kind = CollectiveKind::all_gather; });
  }
}

TEST(Mismatch, OfLongCallsIsFound) {
  CollectiveFingerprint base{
      .kind = CollectiveKind::all_reduce, .dtype = DType::float32, .op = ReduceOp::sum, .count = 100000};
  CollectiveFingerprint longer = base;
  longer.count = 400000;
  expect_mismatch(disagree(3, base, longer, act_as_called), to_string(base), to_string(longer));
  CollectiveFingerprint other_type = base;
  other_type.dtype = DType::int32;
  expect_mismatch(disagree(3, base, other_type, act_as_called), to_string(base), to_string(other_type));
}

// Rank 2 gets its values from rank 0 alone: it may finish before rank 1 finds the difference.
TEST(Mismatch, OfALongBroadcastIsFoundByTheAffectedRanks) {
  const CollectiveFingerprint base{
      .kind = CollectiveKind::broadcast, .dtype = DType::uint8, .root = 0, .count = 3 << 20};
  CollectiveFingerprint longer = base;
  longer.count = 5 << 20;
  auto errors = disagree(3, base, longer, act_as_called);
  if (!errors[2]) errors.pop_back();
  expect_mismatch(errors, to_string(base), to_string(longer));
}

TEST(Mismatch, OfSingleOutputsIsFound) {
  CollectiveFingerprint base{
      .kind = CollectiveKind::all_gather, .dtype = DType::uint8, .count = 64, .layout = 1};
  CollectiveFingerprint other = base;
  other.layout = 2;
  expect_mismatch(disagree(2, base, other, act_as_called), "all_gather(64 x uint8 in all)",
                  "with other sizes of the outputs");
}

// One rank does not make the call.
TEST(Deadline, EndsEveryCollective) {
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast,
                                    CollectiveKind::all_gather, CollectiveKind::barrier}) {
    for (const std::uint64_t count : {4U, 400000U}) {
      const CollectiveFingerprint call{.kind = kind, .dtype = DType::uint8, .root = 2, .count = count};
      const auto errors = on_ranks(3, [&](std::unique_ptr<Transport> transport) {
        if (transport->rank() == 2) return;
        Workspace workspace;
        Exchange exchange(*transport, workspace, call, 1, deadline_after(std::chrono::milliseconds(50)));
        act_as_called(exchange, call);
      });
      EXPECT_THROW(std::rethrow_exception(errors[0]), DistNetworkError);
      EXPECT_NE(message_of(errors[0]).find("before the deadline"), std::string::npos)
          << message_of(errors[0]);
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
