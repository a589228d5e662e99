// An optimizer whose state is shared out makes the steps of one that is whole, with a part of the memory.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "dlaunch/torch/data_parallel.h"
#include "dlaunch/torch/zero_redundancy.h"
#include "tests/runtime/torch/on_ranks.h"
#include "tests/runtime/torch/small_nets.h"

namespace dlaunch::torch {
namespace {

using small_nets::batch;
using small_nets::loss_of;
using small_nets::Net;
using small_nets::part;
using small_nets::set_parameters;
using test::error_of;
using test::on_ranks;

TEST(ShareOut, GivesEachRankAboutAsMuch) {
  EXPECT_EQ(share_out(std::vector<std::size_t>{5, 1, 9, 4}, 2), (std::vector<int>{1, 0, 0, 1}));
  EXPECT_EQ(share_out(std::vector<std::size_t>{3, 3}, 4), (std::vector<int>{0, 1}));
  EXPECT_TRUE(share_out({}, 3).empty());
}

std::size_t state_bytes(::torch::optim::Adam* optimizer) {
  if (optimizer == nullptr) return 0;
  std::size_t bytes = 0;
  for (const auto& [key, state] : optimizer->state()) {
    const auto& adam = static_cast<const ::torch::optim::AdamParamState&>(*state);
    bytes += adam.exp_avg().nbytes() + adam.exp_avg_sq().nbytes();
  }
  return bytes;
}

TEST(ZeroRedundancy, TrainsAsAWholeOptimizerWithAPartOfItsState) {
  std::vector<std::size_t> bytes(4);
  on_ranks(4, [&](int rank) {
    Net net(64);
    set_parameters(*net, 0, 0.1);
    Net alone(64);
    set_parameters(*alone, 0, 0.1);
    DistributedDataParallel model(net);
    const ::torch::optim::AdamOptions options(0.01);
    ZeroRedundancyOptimizer<::torch::optim::Adam> optimizer(model.parameters(), options);
    ::torch::optim::Adam reference(alone->parameters(), options);
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      loss_of(model(part(batch(step), rank, 4))).backward();
      optimizer.step();
      reference.zero_grad();
      loss_of(alone(batch(step))).backward();
      reference.step();
    }
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      EXPECT_TRUE(net->parameters()[i].allclose(alone->parameters()[i], 1e-3, 1e-4)) << i;
    bytes[static_cast<std::size_t>(rank)] = state_bytes(optimizer.local());
  });
  // One weight of 64 x 64 has most of the elements, and cannot be cut.
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}), 8 * (64 * 5 + 64 * 65 + 2 * 65));
  EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), 8U * 64 * 64);
}

TEST(ZeroRedundancy, StateFallsWithTheNumberOfRanks) {
  for (const int ranks : {1, 2, 4}) {
    on_ranks(ranks, [&](int) {
      ::torch::nn::Sequential net;
      for (int i = 0; i < 8; ++i)
        net->push_back(::torch::nn::Linear(::torch::nn::LinearOptions(16, 16).bias(false)));
      DistributedDataParallel model(net);
      ZeroRedundancyOptimizer<::torch::optim::Adam> optimizer(model.parameters(),
                                                              ::torch::optim::AdamOptions(0.01));
      model(::torch::ones({1, 16})).sum().backward();
      optimizer.step();
      EXPECT_EQ(state_bytes(optimizer.local()), 8U * 8 * 256 / static_cast<unsigned>(ranks));
    });
  }
}

TEST(ZeroRedundancy, MoreRanksThanParametersAndWrongOnes) {
  on_ranks(3, [](int rank) {
    ::torch::nn::Linear net(::torch::nn::LinearOptions(4, 4).bias(false));
    DistributedDataParallel model(net);
    ZeroRedundancyOptimizer<::torch::optim::SGD> optimizer(model.parameters(),
                                                           ::torch::optim::SGDOptions(0.1));
    EXPECT_EQ(optimizer.local() != nullptr, rank == 0);
    const at::Tensor before = net->weight.clone();
    model(::torch::ones({1, 4})).sum().backward();
    optimizer.step();
    EXPECT_TRUE(net->weight.allclose(before - 0.1));
    using Sgd = ZeroRedundancyOptimizer<::torch::optim::SGD>;
    EXPECT_EQ(error_of([] { Sgd({}, ::torch::optim::SGDOptions(0.1)); }),
              "rank " + std::to_string(rank) +
                  ", ZeroRedundancyOptimizer of group default: there are no parameters");
  });
}

}  // namespace
}  // namespace dlaunch::torch
