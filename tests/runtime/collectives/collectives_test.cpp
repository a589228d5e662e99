// Ranks that call different collectives, or do not call: what all of them have in common.

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/barrier.h"
#include "runtime/collectives/broadcast.h"
#include "tests/runtime/collectives/sides.h"

namespace dlaunch::internal {
namespace {

using test::on_ranks;
using test::Side;

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
