// Ranks with different numbers of batches train together to the end of the longest.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <tuple>
#include <vector>

#include "dlaunch/torch/data_parallel.h"
#include "dlaunch/torch/tensor.h"
#include "dlaunch/torch/zero_redundancy.h"
#include "tests/runtime/torch/on_ranks.h"
#include "tests/runtime/torch/small_nets.h"

namespace dlaunch::torch {
namespace {

using small_nets::batch;
using small_nets::loss_of;
using small_nets::Net;
using small_nets::set_parameters;
using test::error_of;
using test::on_ranks;

constexpr int joined_ranks = 3;
// By rank: rank 0, whose buffers count otherwise, is the first to finish.
constexpr int batches[joined_ranks] = {1, 4, 3};

at::Tensor data_of(int rank, int step) { return batch(10 * rank + step, 6); }

void train(auto& net, auto& model, int rank, double rate) {
  for (int step = 0; step < batches[rank]; ++step) {
    net->zero_grad();
    loss_of(model(data_of(rank, step))).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter -= rate * parameter.grad();
  }
}

// In one process, what the ranks compute.
void add_gradients(Net& net, int step, bool by_all) {
  int with_data = 0;
  for (int rank = 0; rank < joined_ranks; ++rank) {
    if (step >= batches[rank]) continue;
    ++with_data;
    loss_of(net(data_of(rank, step))).backward();
  }
  for (at::Tensor& parameter : net->parameters())
    parameter.mutable_grad() /= by_all ? joined_ranks : with_data;
}

std::vector<at::Tensor> expected(bool by_all, double rate) {
  Net net;
  set_parameters(*net, 0, 0.3);
  for (int step = 0; step < 4; ++step) {
    net->zero_grad();
    add_gradients(net, step, by_all);
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter -= rate * parameter.grad();
  }
  return net->parameters();
}

class JoinInEachForm : public testing::TestWithParam<std::tuple<bool, bool, bool>> {};

TEST_P(JoinInEachForm, AllTrainToTheEndOfTheLongest) {
  const auto& [by_all, views, unused] = GetParam();
  on_ranks(joined_ranks, [&](int rank) {
    Net net;
    set_parameters(*net, 0, 0.3);
    DistributedDataParallel model(
        net, {.first_bucket_bytes = 16, .find_unused_parameters = unused, .gradient_as_bucket_view = views});
    for (int round = 0; round < 2; ++round) {
      set_parameters(*net, 0, 0.3);
      DataParallel::Join join = model.join({.divide_by_initial_world_size = by_all});
      train(net, model, rank, 0.2);
      join.finish();
      const std::vector<at::Tensor> wanted = expected(by_all, 0.2);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_TRUE(net->parameters()[i].allclose(wanted[i], 1e-4, 1e-6)) << "round " << round << ", " << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Join, JoinInEachForm,
                         testing::Combine(testing::Bool(), testing::Bool(), testing::Bool()));

// Each rank has the state of some parameters: those that have finished make their parts of the steps, too.
TEST_P(JoinInEachForm, ASharedOutOptimizerGoesOn) {
  const auto& [by_all, views, unused] = GetParam();
  on_ranks(joined_ranks, [&](int rank) {
    Net net;
    set_parameters(*net, 0, 0.3);
    DistributedDataParallel model(
        net, {.first_bucket_bytes = 16, .find_unused_parameters = unused, .gradient_as_bucket_view = views});
    const ::torch::optim::AdamOptions options(0.01);
    ZeroRedundancyOptimizer<::torch::optim::Adam> optimizer(model.parameters(), options);
    Net alone;
    set_parameters(*alone, 0, 0.3);
    ::torch::optim::Adam reference(alone->parameters(), options);
    for (int round = 0; round < 2; ++round) {
      Join join = model.join({.divide_by_initial_world_size = by_all});
      for (int step = 0; step < batches[rank]; ++step) {
        optimizer.zero_grad();
        loss_of(model(data_of(rank, step))).backward();
        optimizer.step();
      }
      join.finish([&] { optimizer.step(); });
      for (int step = 0; step < 4; ++step) {
        reference.zero_grad();
        add_gradients(alone, step, by_all);
        reference.step();
      }
      for (std::size_t i = 0; i < net->parameters().size(); ++i)
        EXPECT_TRUE(net->parameters()[i].allclose(alone->parameters()[i], 1e-3, 1e-4)) << round << ", " << i;
    }
  });
}

TEST(Join, BuffersAreThoseOfARankThatTrains) {
  on_ranks(2, [](int rank) {
    ::torch::nn::Sequential net(::torch::nn::Linear(4, 3), ::torch::nn::BatchNorm1d(3));
    DistributedDataParallel model(net);
    DataParallel::Join join = model.join();
    for (int step = 0; step < (rank == 0 ? 1 : 4); ++step) model(data_of(rank, step)).sum().backward();
    join.finish();
    EXPECT_EQ(net->named_buffers()["1.num_batches_tracked"].item<int>(), 4);
  });
}

TEST(Join, NoRankMayHaveData) {
  on_ranks(2, [](int) {
    Net net;
    DistributedDataParallel model(net);
    DataParallel::Join join = model.join();
    EXPECT_NE(error_of([&] { (void)model.join(); }).find("there is a Join already"), std::string::npos);
    join.finish();
    join.finish();  // nothing
  });
}

TEST(Join, EndsAllRanksEarlyIfAsked) {
  on_ranks(2, [](int rank) {
    Net net;
    DistributedDataParallel model(net);
    DataParallel::Join join = model.join({.throw_on_early_termination = true});
    loss_of(model(batch(0))).backward();
    const std::string error = error_of([&] {
      if (rank == 1) join.finish();
      loss_of(model(batch(1))).backward();
    });
    EXPECT_NE(error.find("rank 1 has no more data (throw_on_early_termination)"), std::string::npos) << error;
    if (rank == 0) {
      EXPECT_NE(error_of([&] { join.finish(); }), "");
    }
  });
}

TEST(Join, ARankThatLeavesItEndsTheOthers) {
  std::string error;
  EXPECT_ANY_THROW(run_ranks_as_threads(2, [&](int rank) {
    init_process_group();
    Net net;
    DistributedDataParallel model(net);
    {
      DataParallel::Join join = model.join();
      if (rank == 0) error = error_of([&] { join.finish(); });
    }
    throw DistError("done");
  }));
  EXPECT_NE(error.find("has left its Join without finish()"), std::string::npos) << error;
}

}  // namespace
}  // namespace dlaunch::torch
