// Gradients that are sent as products of thin matrices.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "dlaunch/torch/data_parallel.h"
#include "dlaunch/torch/distributed.h"
#include "dlaunch/torch/power_sgd.h"
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

constexpr int width = 32;                                     // of the layer `extra`, which is compressed
constexpr std::int64_t elements = 32 * 5 + 32 * 33 + 2 * 33;  // of all gradients

// Two buckets, or each gradient in one.
DataParallelOptions small_buckets(bool smallest = true) {
  DataParallelOptions options;
  options.first_bucket_bytes = 16;
  if (smallest) options.bucket_cap_mb = 0;
  return options;
}

// A copy of the net with the gradients of the whole input.
Net with_gradients(const Net& net, const at::Tensor& input) {
  Net copy(width);
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      copy->parameters()[i].copy_(net->parameters()[i]);
  }
  loss_of(copy(input)).backward();
  return copy;
}

double distance(const at::Tensor& value, const at::Tensor& wanted) {
  return ((value - wanted).norm() / wanted.norm()).item<double>();
}

class Exact : public testing::TestWithParam<std::tuple<double, bool, bool>> {};

// The gradient of four inputs has rank 4 at most. (Gram-Schmidt wants columns that are independent: two
// inputs.)
TEST_P(Exact, GradientsOfNoHigherRankAreThoseOfAllReduce) {
  on_ranks(2, [](int rank) {
    const auto& [epsilon, feedback, warm] = GetParam();
    const int inputs = epsilon == 0 ? 4 : 2;
    Net net(width);
    set_parameters(*net, 0.5, 0.3);
    DistributedDataParallel model(net, small_buckets(warm));
    const PowerSgd power_sgd({.matrix_approximation_rank = inputs,
                              .start_powerSGD_iter = 2,
                              .min_compression_rate = 6. / inputs,
                              .use_error_feedback = feedback,
                              .warm_start = warm,
                              .orthogonalization_epsilon = epsilon});
    model.register_comm_hook(power_sgd.hook());
    for (int step = 0; step < 6; ++step) {
      net->zero_grad();
      const at::Tensor input = batch(step, inputs);
      loss_of(model(part(input, rank, 2))).backward();
      const Net whole = with_gradients(net, input);
      for (std::size_t i = 0; i < net->parameters().size(); ++i) {
        EXPECT_LT(distance(net->parameters()[i].grad(), whole->parameters()[i].grad()),
                  epsilon == 0 ? 1e-3 : 1e-2)
            << "step " << step << ", parameter " << i;
      }
      const at::Tensor gradient = net->extra->weight.grad();
      std::vector<at::Tensor> all{::torch::empty_like(gradient), ::torch::empty_like(gradient)};
      torch::all_gather(all, gradient);
      EXPECT_TRUE(all[0].equal(all[1]));
      const PowerSgdStatistics statistics = power_sgd.statistics();
      EXPECT_EQ(statistics.iterations, static_cast<std::uint64_t>(step + 1));
      EXPECT_EQ(statistics.elements, static_cast<std::size_t>(elements));
      EXPECT_EQ(statistics.sent, static_cast<std::size_t>(
                                     step < 2 ? elements : elements - width * width + inputs * 2 * width));
    }
    EXPECT_NEAR(power_sgd.statistics().compression_rate(), 1282. / (258 + 64 * inputs), 1e-12);
  });
}

std::string exact_name(const testing::TestParamInfo<Exact::ParamType>& info) {
  const auto& [epsilon, feedback, warm] = info.param;
  return std::string(epsilon == 0 ? "Qr" : "GramSchmidt") + (feedback ? "Feedback" : "") +
         (warm ? "Warm" : "");
}
INSTANTIATE_TEST_SUITE_P(PowerSgd, Exact,
                         testing::Combine(testing::Values(0, 1e-6), testing::Bool(), testing::Bool()),
                         exact_name);

// How far the mean of the gradients of many equal steps is from the gradient.
double distance_of_mean(bool feedback, bool warm) {
  double result = 0;
  on_ranks(2, [&](int rank) {
    Net net(width);
    set_parameters(*net, 0.5, 0.3);
    DistributedDataParallel model(net, small_buckets());
    model.register_comm_hook(
        PowerSgd({.start_powerSGD_iter = 2, .use_error_feedback = feedback, .warm_start = warm}).hook());
    at::Tensor sum = ::torch::zeros({width, width});
    for (int step = 0; step < 42; ++step) {
      net->zero_grad();
      loss_of(model(part(batch(1), rank, 2))).backward();
      if (step >= 2) sum += net->extra->weight.grad();
    }
    if (rank == 0) result = distance(sum / 40, with_gradients(net, batch(1))->extra->weight.grad());
  });
  return result;
}

TEST(PowerSgd, WhatIsLostIsSentInLaterSteps) {
  const double lost = distance_of_mean(false, true);
  EXPECT_GT(lost, 0.05);
  EXPECT_LT(distance_of_mean(true, true), lost / 4);
  EXPECT_LT(distance_of_mean(true, false), lost / 4);
}

double loss_after_training(bool compresses) {
  double result = 0;
  on_ranks(2, [&](int rank) {
    Net net(width);
    set_parameters(*net, 0.5, 0.3);
    DistributedDataParallel model(net, small_buckets());
    if (compresses)
      model.register_comm_hook(PowerSgd({.matrix_approximation_rank = 2, .start_powerSGD_iter = 2}).hook());
    ::torch::optim::SGD optimizer(model.parameters(), ::torch::optim::SGDOptions(0.01).momentum(0.9));
    for (int step = 0; step < 100; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = loss_of(model(part(batch(step % 4), rank, 2)));
      loss.backward();
      optimizer.step();
      at::Tensor both = loss.detach().clone();
      torch::all_reduce(both, ReduceOp::avg);
      if (rank == 0 && (step == 0 || step == 99))
        result = step == 0 ? both.item<double>() : both.item<double>() / result;
    }
  });
  return result;
}

TEST(PowerSgd, TrainsAsWell) {
  const double whole = loss_after_training(false);
  EXPECT_LT(whole, 0.02);  // of the first loss
  EXPECT_LT(loss_after_training(true), 2 * whole);
}

TEST(PowerSgd, FirstStepsAndSmallGradientsAreReducedWhole) {
  on_ranks(2, [](int rank) {
    Net net;  // 5 x 5 at most
    set_parameters(*net, 0.5);
    DistributedDataParallel model(net, small_buckets());
    std::vector<std::uint64_t> logged;
    const PowerSgd power_sgd({.matrix_approximation_rank = 2,
                              .start_powerSGD_iter = 2,
                              .compression_stats_logging_frequency = 2,
                              .log_compression_stats = [&](const PowerSgdStatistics& statistics) {
                                logged.push_back(statistics.iterations);
                                EXPECT_EQ(statistics.compression_rate(), 1);
                              }});
    model.register_comm_hook(power_sgd.hook());
    for (int step = 0; step < 5; ++step) {
      net->zero_grad();
      loss_of(model(part(batch(step), rank, 2))).backward();
      EXPECT_EQ(small_nets::differences(*net, small_nets::whole_gradients(0.5, batch(step))), "");
    }
    EXPECT_EQ(logged, (std::vector<std::uint64_t>{2, 4}));
  });
}

TEST(PowerSgd, OptionsWithoutMeaning) {
  const auto error = [](const PowerSgdOptions& options) {
    return error_of([&] { const PowerSgd hook(options); });
  };
  EXPECT_EQ(error({.matrix_approximation_rank = 0}), "PowerSgd: matrix_approximation_rank is not positive");
  EXPECT_EQ(error({.min_compression_rate = 0}), "PowerSgd: min_compression_rate is not positive");
  EXPECT_EQ(error({.orthogonalization_epsilon = -1}), "PowerSgd: orthogonalization_epsilon is negative");
  EXPECT_EQ(error({.compression_stats_logging_frequency = 0}),
            "PowerSgd: compression_stats_logging_frequency is 0");
  EXPECT_EQ(
      error({.start_powerSGD_iter = 1, .warm_start = false}),
      "PowerSgd: start_powerSGD_iter is 1; with use_error_feedback or warm_start it must be 2 at least");
  EXPECT_EQ(error({.start_powerSGD_iter = 0, .use_error_feedback = false, .warm_start = false}), "");
}

}  // namespace
}  // namespace dlaunch::torch
