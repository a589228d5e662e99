// Modules of LibTorch on CUDA devices: their gradients are averaged there, in the order of LibTorch's
// streams.

#include <torch/torch.h>

#include "dlaunch/torch/data_parallel.h"
#include "dlaunch/torch/distributed.h"
#include "dlaunch/torch/tensor.h"
#include "dlaunch/torch/zero_redundancy.h"
#include "tests/runtime/data_parallel/reduced_model.h"
#include "tests/runtime/torch/small_nets.h"
#include "tests/runtime/torch/torch_devices.h"

namespace dlaunch::torch {
namespace {

using small_nets::batch;
using small_nets::differences;
using small_nets::loss_of;
using small_nets::Net;
using small_nets::part;
using small_nets::set_parameters;
using small_nets::whole_gradients;
using test::in_stream;
using test::init_for;
using test::run_ranks;
using test::torch_device_of;

CollectiveOptions async() {
  CollectiveOptions options;
  options.async_op = true;
  return options;
}

class DeviceModules : public testing::TestWithParam<const char*> {};

TEST_P(DeviceModules, CollectivesAreInTheOrderOfTheCurrentStream) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    const auto guard = in_stream(test::make_stream(), rank);
    const at::Tensor source = ::torch::ones({3}).to(torch_device_of(rank)) * (rank + 1);
    for (int i = 0; i < test::repeats; ++i) {
      const at::Tensor values = at::empty_like(source);
      const at::Tensor result = at::empty_like(source);
      values.copy_(source);
      all_reduce(values, ReduceOp::sum, i % 2 == 0 ? CollectiveOptions() : async()).wait();
      result.copy_(values);
      if (!result.cpu().equal(::torch::full({3}, 3.F))) return "round " + std::to_string(i);
    }
    const at::Tensor columns = at::arange(6, at::kFloat).view({2, 3}).to(torch_device_of(rank)).t();
    const TensorWork work = all_reduce(columns, ReduceOp::sum, async());
    if (!columns.cpu().equal(2 * at::arange(6, at::kFloat).view({2, 3}).t())) return std::string("columns");
    work.wait();
    return columns.device().str();
  });
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(results[rank].said, "cuda:" + std::to_string(test::device_of(static_cast<int>(rank))));
}

// What DataParallelOptions ask for, by name.
DataParallelOptions options_of(const std::string& form, int rank) {
  DataParallelOptions options{.first_bucket_bytes = 16};
  if (form == "unused") options.find_unused_parameters = true;
  if (form == "static") options.static_graph = true;
  if (form == "views") options.gradient_as_bucket_view = true;
  if (form == "delayed") options.delay_all_reduce = true;
  if (form == "device_ids") options.device_ids = {test::device_of(rank)};
  return options;
}

TEST_P(DeviceModules, GradientsAreThoseOfTheWholeBatch) {
  for (const char* const form : {"plain", "unused", "static", "views", "delayed", "device_ids"}) {
    const auto results = run_ranks(2, [form](int rank) {
      init_for(rank, GetParam());
      const auto guard = in_stream(test::make_stream(), rank);
      Net net;
      set_parameters(*net, rank);
      net->to(torch_device_of(rank));
      DistributedDataParallel model(net, options_of(form, rank));
      for (int step = 0; step < 5; ++step) {
        net->zero_grad();
        at::Tensor input = part(batch(step), rank, 2);
        if (std::string(form) != "device_ids") input = input.to(torch_device_of(rank));
        loss_of(model(input)).backward();
        Net copy;
        for (std::size_t i = 0; i < net->parameters().size(); ++i)
          copy->parameters()[i].mutable_grad() = net->parameters()[i].grad().cpu();
        if (const auto wrong = differences(*copy, whole_gradients(0, batch(step))); !wrong.empty())
          return "step " + std::to_string(step) + ": " + wrong;
      }
      return std::to_string(test::steps_when_ended([&] { return model.statistics().reducer; }, 5)) + " steps";
    });
    test::expect_all_say(results, "5 steps");
  }
}

TEST_P(DeviceModules, StepsWithoutReductionAddUpAndUnevenInputsJoin) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    Net net;
    set_parameters(*net, 0);
    net->to(torch_device_of(rank));
    DistributedDataParallel model(net);
    {
      const auto no_sync = model.no_sync();
      loss_of(model(part(batch(0), rank, 2).to(torch_device_of(rank)))).backward();
    }
    loss_of(model(part(batch(0), rank, 2).to(torch_device_of(rank)))).backward();
    const at::Tensor twice = net->parameters()[0].grad().cpu();
    if (!twice.allclose(2 * whole_gradients(0, batch(0))[0])) return std::string("not the sum");
    net->zero_grad();
    ::torch::optim::SGD optimizer(net->parameters(), 0.1);
    auto join = model.join();
    for (int step = 0; step < 2 + rank; ++step) {
      optimizer.zero_grad();
      loss_of(model(part(batch(step), rank, 2).to(torch_device_of(rank)))).backward();
      optimizer.step();
    }
    join.finish();
    const at::Tensor sum = net->parameters()[0].detach().clone();
    all_reduce(sum);
    return std::string(sum.cpu().allclose(2 * net->parameters()[0].detach().cpu()) ? "equal" : "different");
  });
  test::expect_all_say(results, "equal");
}

// Each rank makes the optimizer's step of a part of the parameters, and sends them.
TEST_P(DeviceModules, TheStateOfAnOptimizerIsSharedOut) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    const auto guard = in_stream(test::make_stream(), rank);
    Net alone;
    set_parameters(*alone, 0);
    Net net;
    set_parameters(*net, 0);
    net->to(torch_device_of(rank));
    DistributedDataParallel model(net);
    const ::torch::optim::AdamOptions options(0.01);
    ZeroRedundancyOptimizer<::torch::optim::Adam> optimizer(model.parameters(), options);
    ::torch::optim::Adam reference(alone->parameters(), options);
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      loss_of(model(part(batch(step), rank, 2).to(torch_device_of(rank)))).backward();
      optimizer.step();
      reference.zero_grad();
      loss_of(alone(batch(step))).backward();
      reference.step();
      for (std::size_t i = 0; i < net->parameters().size(); ++i) {
        if (!net->parameters()[i].detach().cpu().allclose(alone->parameters()[i], 1e-4, 1e-5))
          return "parameter " + std::to_string(i) + " in step " + std::to_string(step);
      }
    }
    return std::string("equal");
  });
  test::expect_all_say(results, "equal");
}

INSTANTIATE_TEST_SUITE_P(WithBackend, DeviceModules, testing::Values("nccl", "gloo", "cpu:gloo,cuda:nccl"),
                         test::name_of_backend);

TEST(DeviceModulesErrors, DevicesThatAreNotTheModulesAreNamed) {
  const auto results = run_ranks(1, [](int rank) {
    init_for(rank, "gloo");
    Net net;
    net->to(torch_device_of(0));
    const auto error = [&](DataParallelOptions options) {
      return test::thrown_by([&] { const DistributedDataParallel model(net, std::move(options)); }) + "\n";
    };
    return error({.device_ids = {1}}) + error({.device_ids = {0, 1}}) + error({.output_device = 2}) +
           error({.device_ids = {0}, .output_device = 0});
  });
  test::expect_all_say(results,
                       "rank 0: device_ids names cuda:1, and the module is on cuda:0\n"
                       "rank 0: device_ids has 2 devices: a module is on one\n"
                       "rank 0: output_device names cuda:2, and the module is on cuda:0\n\n");
}

}  // namespace
}  // namespace dlaunch::torch
