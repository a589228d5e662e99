// The table of collectives, row by row: each call, synchronous and asynchronous, of nothing, of little and of
// much, on every backend for the CPU; and that it leaves everything alone where a rank is not a member.

#include <dlaunch/distributed.h>
#include <dlaunch/threads.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/runtime/rank_processes.h"

namespace {

using dlaunch::OperationOptions;
using dlaunch::ProcessGroup;
using dlaunch::ReduceOp;
using dlaunch::Tensor;
using dlaunch::Work;

// One rank's memory for one call: `own` and `other` hold rank + 1, block i of `blocks` i + 1.
struct Memory {
  Memory(const ProcessGroup& group, std::size_t length)
      : rank(group.rank()),
        size(group.size()),
        count(length),
        own(length, std::max(rank, 0) + 1),
        other(own),
        blocks(static_cast<std::size_t>(size) * length),
        more_blocks(blocks.size()) {
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int>(i / length) + 1;
  }

  static std::vector<Tensor> parts(std::vector<int>& whole, int size) {
    const std::size_t each = whole.size() / static_cast<std::size_t>(size);
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
      result.push_back(Tensor::from(whole.data() + i * each, {static_cast<std::int64_t>(each)}));
    }
    return result;
  }
  [[nodiscard]] std::vector<Tensor> parts_at(int root, std::vector<int>& whole) const {
    return rank == root ? parts(whole, size) : std::vector<Tensor>();
  }

  [[nodiscard]] bool are(const std::vector<int>& values, int wanted) const {
    return values == std::vector<int>(count, wanted);
  }
  // Block i holds first + i * step.
  [[nodiscard]] bool count_up(const std::vector<int>& values, int first, int step) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != first + static_cast<int>(i / count) * step) return false;
    }
    return true;
  }
  [[nodiscard]] int total() const { return size * (size + 1) / 2; }

  const int rank;
  const int size;
  const std::size_t count;
  std::vector<int> own;
  std::vector<int> other;
  std::vector<int> blocks;
  std::vector<int> more_blocks;
};

struct Call {
  std::string name;
  std::function<Work(const ProcessGroup&, Memory&, const OperationOptions&)> start;
  std::function<bool(const Memory&)> is_right;
};

using Options = const OperationOptions&;
using Group = const ProcessGroup&;

const std::vector<Call> calls = {
    {"all_reduce",
     [](Group g, Memory& m, Options o) { return g.all_reduce(Tensor::of(m.own), ReduceOp::sum, o); },
     [](const Memory& m) { return m.are(m.own, m.total()); }},
    {"broadcast", [](Group g, Memory& m, Options o) { return g.broadcast(Tensor::of(m.own), m.size - 1, o); },
     [](const Memory& m) { return m.are(m.own, m.size); }},
    {"reduce", [](Group g, Memory& m, Options o) { return g.reduce(Tensor::of(m.own), 0, ReduceOp::sum, o); },
     [](const Memory& m) { return m.are(m.own, m.rank == 0 ? m.total() : m.rank + 1); }},
    {"all_gather",
     [](Group g, Memory& m, Options o) {
       return g.all_gather(Memory::parts(m.more_blocks, m.size), Tensor::of(m.own), o);
     },
     [](const Memory& m) { return m.count_up(m.more_blocks, 1, 1); }},
    {"all_gather_into_tensor",
     [](Group g, Memory& m, Options o) {
       return g.all_gather_into_tensor(Tensor::of(m.more_blocks), Tensor::of(m.own), o);
     },
     [](const Memory& m) { return m.count_up(m.more_blocks, 1, 1); }},
    {"gather",
     [](Group g, Memory& m, Options o) {
       return g.gather(m.parts_at(0, m.more_blocks), Tensor::of(m.own), 0, o);
     },
     [](const Memory& m) { return m.rank != 0 || m.count_up(m.more_blocks, 1, 1); }},
    {"scatter",
     [](Group g, Memory& m, Options o) {
       return g.scatter(Tensor::of(m.other), m.parts_at(0, m.blocks), 0, o);
     },
     [](const Memory& m) { return m.are(m.other, m.rank + 1); }},
    {"reduce_scatter",
     [](Group g, Memory& m, Options o) {
       return g.reduce_scatter(Tensor::of(m.own), Memory::parts(m.blocks, m.size), ReduceOp::sum, o);
     },
     [](const Memory& m) { return m.are(m.own, m.size * (m.rank + 1)); }},
    {"reduce_scatter_tensor",
     [](Group g, Memory& m, Options o) {
       return g.reduce_scatter_tensor(Tensor::of(m.own), Tensor::of(m.blocks), ReduceOp::sum, o);
     },
     [](const Memory& m) { return m.are(m.own, m.size * (m.rank + 1)); }},
    {"all_to_all",
     [](Group g, Memory& m, Options o) {
       return g.all_to_all(Memory::parts(m.more_blocks, m.size), Memory::parts(m.blocks, m.size), o);
     },
     [](const Memory& m) { return m.count_up(m.more_blocks, m.rank + 1, 0); }},
    {"all_to_all_single",
     [](Group g, Memory& m, Options o) {
       return g.all_to_all_single(Tensor::of(m.more_blocks), Tensor::of(m.blocks), {}, {}, o);
     },
     [](const Memory& m) { return m.count_up(m.more_blocks, m.rank + 1, 0); }},
    {"barrier", [](Group g, Memory& /*m*/, Options o) { return g.barrier(o); },
     [](const Memory& /*m*/) { return true; }},
    {"all_reduce_coalesced",
     [](Group g, Memory& m, Options o) {
       const std::vector<Tensor> both = {Tensor::of(m.own), Tensor::of(m.other)};
       return g.all_reduce_coalesced(both, ReduceOp::max, o);
     },
     [](const Memory& m) { return m.are(m.own, m.size) && m.are(m.other, m.size); }},
    {"all_gather_into_tensor_coalesced",
     [](Group g, Memory& m, Options o) {
       const std::vector<Tensor> outputs = {Tensor::of(m.blocks), Tensor::of(m.more_blocks)};
       const std::vector<Tensor> inputs = {Tensor::of(m.own), Tensor::of(m.other)};
       return g.all_gather_into_tensor_coalesced(outputs, inputs, o);
     },
     [](const Memory& m) { return m.count_up(m.blocks, 1, 1) && m.count_up(m.more_blocks, 1, 1); }},
    {"reduce_scatter_tensor_coalesced",
     [](Group g, Memory& m, Options o) {
       const std::vector<Tensor> outputs = {Tensor::of(m.own), Tensor::of(m.other)};
       const std::vector<Tensor> inputs = {Tensor::of(m.blocks), Tensor::of(m.more_blocks)};
       return g.reduce_scatter_tensor_coalesced(outputs, inputs, ReduceOp::sum, o);
     },
     [](const Memory& m) { return m.are(m.own, m.size * (m.rank + 1)) && m.are(m.other, 0); }},
};

class EveryCall : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  static void on_ranks(const std::function<void(const ProcessGroup&)>& body) {
    const std::string& backend = std::get<0>(GetParam());
    const int size = std::get<1>(GetParam());
    const bool twice = backend == "gloo_on_two_interfaces";
    std::optional<dlaunch::test::Variable> both;
    if (twice) both.emplace("DLAUNCH_SOCKET_IFNAME", "lo,lo");
    dlaunch::run_ranks_as_threads(size, [&](int) {
      dlaunch::InitOptions options;
      options.backend = twice ? "gloo" : backend;
      dlaunch::init_process_group(options);
      body(dlaunch::default_group());
      dlaunch::destroy_process_group();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, EveryCall,
                         testing::Combine(testing::Values("threads", "gloo", "gloo_on_two_interfaces"),
                                          testing::Values(1, 2, 3, 4, 5, 8)),
                         [](const auto& param) {
                           return std::get<0>(param.param) + std::to_string(std::get<1>(param.param));
                         });

TEST_P(EveryCall, HasItsDocumentedResultSyncAndAsync) {
  on_ranks([](const ProcessGroup& group) {
    for (const std::size_t count : {0U, 1U, 1000U, 20000U}) {
      for (const Call& call : calls) {
        Memory waited(group, count);
        EXPECT_TRUE(call.start(group, waited, {}).is_completed()) << call.name;
        EXPECT_TRUE(call.is_right(waited)) << call.name << " of " << count;
      }
      OperationOptions async;
      async.async_op = true;
      std::vector<Memory> memories(calls.size(), Memory(group, count));
      std::vector<Work> works;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        works.push_back(calls[i].start(group, memories[i], async));
      }
      for (std::size_t i = 0; i < calls.size(); ++i) {
        works[i].wait();
        EXPECT_TRUE(calls[i].is_right(memories[i])) << calls[i].name << " of " << count << ", asynchronous";
      }
    }
  });
}

// As in torch.distributed: all ranks run the same lines, and those that are not in the group go on at once.
TEST_P(EveryCall, DoesNothingWhereTheRankIsNotAMember) {
  on_ranks([](const ProcessGroup& group) {
    const ProcessGroup first = dlaunch::new_group({0});
    if (first.rank() >= 0) return;
    OperationOptions async;
    async.async_op = true;
    for (const Call& call : calls) {
      Memory memory(first, 3);
      const Memory before = memory;
      for (const OperationOptions& options : {OperationOptions{}, async}) {
        const Work work = call.start(first, memory, options);
        EXPECT_TRUE(work.is_completed() && work.is_success()) << call.name;
        work.wait();
      }
      EXPECT_TRUE(memory.own == before.own && memory.other == before.other &&
                  memory.blocks == before.blocks && memory.more_blocks == before.more_blocks)
          << call.name;
    }
    std::vector<int> value = {7};
    first.send(Tensor::of(value), 0);
    EXPECT_EQ(first.recv(Tensor::of(value), dlaunch::any_source), -1);
    EXPECT_EQ(first.irecv(Tensor::of(value), 0).source_rank(), -1);
    const std::vector<dlaunch::P2POp> ops = {{dlaunch::P2POp::Kind::isend, Tensor::of(value), 0},
                                             {dlaunch::P2POp::Kind::irecv, Tensor::of(value), 0}};
    EXPECT_EQ(first.batch_isend_irecv(ops).size(), 2U);
    dlaunch::Coalescing together(first);
    together.all_reduce(Tensor::of(value));
    EXPECT_TRUE(together.end().is_success());
    first.monitored_barrier();
    EXPECT_EQ(value[0], 7);
    EXPECT_THROW(first.abort("no"), dlaunch::DistError);
    EXPECT_EQ(first.rank(), -1);
    EXPECT_EQ(first.size(), 1);
    EXPECT_GE(group.rank(), 1);
  });
}

}  // namespace
