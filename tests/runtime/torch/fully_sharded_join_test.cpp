// Ranks with different numbers of batches and divided parameters train as one process does.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "dlaunch/torch/fully_sharded.h"
#include "tests/runtime/torch/divided_nets.h"
#include "tests/runtime/torch/expect_has.h"
#include "tests/runtime/torch/on_ranks.h"
#include "tests/runtime/torch/small_nets.h"

namespace dlaunch::torch {
namespace {

using divided_nets::all_units;
using divided_nets::Blocks;
using small_nets::batch;
using small_nets::loss_of;
using small_nets::set_parameters;
using test::error_of;
using test::on_ranks;

constexpr int divided_ranks = 3;
constexpr double greatest_norm = 0.05;
// By round and rank: a rank that never has data, and rank 0, which announces at first, in the middle.
constexpr std::array<std::array<int, divided_ranks>, 3> rounds{{{0, 3, 1}, {2, 1, 4}, {1, 1, 1}}};

// Each step has two parts, whose gradients add up. In the third step the middle layer runs only once.
at::Tensor input_of(int rank, int step, int part_of_step) {
  return batch(100 * rank + 10 * step + part_of_step);
}
int times_of(int step) { return step == 2 ? 1 : 2; }

void train_alone(Blocks& net, ::torch::optim::Optimizer& optimizer, const auto& batches, bool by_all) {
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    int with_data = 0;
    for (int rank = 0; rank < divided_ranks; ++rank) {
      if (step >= batches[static_cast<std::size_t>(rank)]) continue;
      ++with_data;
      for (const int i : {0, 1}) loss_of(net(input_of(rank, step, i), times_of(step))).backward();
    }
    if (with_data == 0) return;
    for (at::Tensor& parameter : net->parameters())
      parameter.mutable_grad() /= by_all ? divided_ranks : with_data;
    ::torch::nn::utils::clip_grad_norm_(net->parameters(), greatest_norm);
    optimizer.step();
  }
}

void train_together(auto& model, ::torch::optim::Optimizer& optimizer, int rank, int steps) {
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    {
      const at::NoGradGuard no_grad;  // a look in between
      (void)model(batch(1));
    }
    {
      const NoSync guard = model.no_sync();
      loss_of(model(input_of(rank, step, 0), times_of(step))).backward();
    }
    loss_of(model(input_of(rank, step, 1), times_of(step))).backward();
    (void)model.clip_grad_norm(greatest_norm);
    optimizer.step();
  }
}

class JoinWithUnits : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(JoinWithUnits, TrainsToTheEndOfTheLongestAsOneProcess) {
  const auto [has_units, by_all] = GetParam();
  on_ranks(divided_ranks, [has_units = has_units, by_all = by_all](int rank) {
    Blocks whole;
    Blocks divided;
    set_parameters(*whole, 0.5, 0.3);
    set_parameters(*divided, 0.5, 0.3);
    FullyShardedDataParallel model(divided, {.units = has_units ? all_units : std::vector<std::string>()});
    ::torch::optim::Adam reference(whole->parameters(), ::torch::optim::AdamOptions(0.01));
    ::torch::optim::Adam optimizer(model.shards(), ::torch::optim::AdamOptions(0.01));
    for (const auto& batches : rounds) {
      train_alone(whole, reference, batches, by_all);
      Join join = model.join({.divide_by_initial_world_size = by_all});
      train_together(model, optimizer, rank, batches[static_cast<std::size_t>(rank)]);
      join.finish([&] { optimizer.step(); });
      const auto full = model.full_parameters();
      for (const auto& item : whole->named_parameters())
        EXPECT_TRUE(item.value().allclose(divided->named_parameters()[item.key()], 1e-3, 1e-4)) << item.key();
    }
    // And without a Join.
    train_together(model, optimizer, rank, 3);
    train_alone(whole, reference, std::array{3, 3, 3}, by_all);
    const auto full = model.full_parameters();
    for (const auto& item : whole->named_parameters())
      EXPECT_TRUE(item.value().allclose(divided->named_parameters()[item.key()], 1e-3, 1e-4)) << item.key();
  });
}

INSTANTIATE_TEST_SUITE_P(FullyShardedJoin, JoinWithUnits, testing::Combine(testing::Bool(), testing::Bool()));

TEST(FullyShardedJoin, WhatItRejects) {
  on_ranks(2, [](int) {
    Blocks net;
    FullyShardedDataParallel model(net, {.units = all_units});
    const at::Tensor part = model.shards()[0].detach().clone();
    {
      const auto full = model.full_parameters();
      EXPECT_HAS(error_of([&] { (void)model.join(); }), "there is a FullParameters, or this is within");
    }
    Join join = model.join();
    EXPECT_HAS(error_of([&] { (void)model.join(); }), "there is a Join already");
    EXPECT_HAS(error_of([&] { (void)model.full_parameters(); }),
               "full_parameters of group default: there is a Join");
    EXPECT_HAS(error_of([&] { (void)model.gather(0, part); }), "gather of group default: there is a Join");
    join.finish([] { ADD_FAILURE() << "nobody has trained"; });
    (void)model.gather(0, part);
  });
}

TEST(FullyShardedJoin, NeedsTheStepOfTheOptimizer) {
  std::string error;
  EXPECT_ANY_THROW(run_ranks_as_threads(2, [&](int rank) {
    init_process_group();
    Blocks net;
    FullyShardedDataParallel model(net);
    Join join = model.join();
    const std::string own = error_of([&] { join.finish(); });
    if (rank == 0) error = own;
    throw DistError("done");
  }));
  EXPECT_HAS(error, "finish() needs the optimizer's step");
}

TEST(FullyShardedJoin, EndsAllRanksEarlyIfAsked) {
  on_ranks(2, [](int rank) {
    Blocks net;
    FullyShardedDataParallel model(net, {.units = all_units});
    Join join = model.join({.throw_on_early_termination = true});
    loss_of(model(batch(0))).backward();
    EXPECT_HAS(error_of([&] {
                 if (rank == 1) join.finish([] {});
                 loss_of(model(batch(1))).backward();
               }),
               "rank 1 has no more data (throw_on_early_termination)");
    if (rank == 0) {
      EXPECT_HAS(error_of([&] { join.finish([] {}); }), "rank 1 has no more data");
    }
  });
}

}  // namespace
}  // namespace dlaunch::torch
