// Ranks whose messages go through rings, step by step.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/point_to_point/memory_protocol.h"
#include "tests/runtime/point_to_point/ring_ranks.h"

namespace dlaunch::test {

using namespace internal;
using Values = std::vector<std::int32_t>;

inline constexpr std::size_t long_count = 100'000;  // longer than a record

inline Values some_values(std::size_t count, int first = 1) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<int>(i);
  return values;
}

// Two ranks or more, of which each call and each look at the rings is a step of the test.
class MemoryProtocolTest : public testing::Test {
 protected:
  struct Rank {
    Rank(RingRanks& all, int rank) : protocol(all.transport(rank), all.rings(rank)) {}
    MemoryProtocol protocol;
    MemoryProtocol::Outcome outcome;
  };

  explicit MemoryProtocolTest(int size = 2) : all_(size) {
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(all_, rank));
  }

  Work send(int from, int to, const Values& values, Tag tag = 0, Deadline deadline = soon()) {
    Rank& rank = *ranks_[static_cast<std::size_t>(from)];
    const Tensor tensor = Tensor::of(values);
    const WorkSource source;
    if (rank.protocol.send_at_once(tensor, to, tag, rank.outcome)) {
      source.succeed();
    } else {
      rank.protocol.send_rts({tensor, to, tag, deadline, source});
    }
    settle(from);
    return source.work();
  }
  Work receive(int at, int from, Values& values, Tag tag = 0, Deadline deadline = soon()) {
    Rank& rank = *ranks_[static_cast<std::size_t>(at)];
    const WorkSource source;
    rank.protocol.receive({Tensor::of(values), from, tag, deadline, source}, rank.outcome);
    settle(at);
    return source.work();
  }
  void step(int at) {
    Rank& rank = *ranks_[static_cast<std::size_t>(at)];
    rank.protocol.progress(rank.outcome);
    settle(at);
  }
  void settle(int at) {
    Rank& rank = *ranks_[static_cast<std::size_t>(at)];
    for (std::size_t i = 0; i < rank.outcome.reads.size(); ++i) {
      const bool is_read = rank.protocol.make(rank.outcome.reads[i]);
      reads_ += is_read ? 1 : 0;
      rank.protocol.end_read(rank.outcome.reads[i], is_read, rank.outcome);
    }
    const MemoryProtocol::Outcome outcome = std::exchange(rank.outcome, {});
    for (const MemoryProtocol::Ending& ending : outcome.endings) ending.end();
  }
  void step_all(int times = 1) {
    for (int i = 0; i < times; ++i) {
      for (int rank = 0; rank < all_.size(); ++rank) step(rank);
    }
  }
  [[nodiscard]] MemoryProtocol& protocol(int rank) {
    return ranks_[static_cast<std::size_t>(rank)]->protocol;
  }
  static std::string error_of(const Work& work) {
    const std::exception_ptr error = work.exception();
    return error ? message_of(error) : "no error";
  }

  RingRanks all_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  int reads_ = 0;
};

}  // namespace dlaunch::test
