// Modules on CUDA devices whose parameters are divided among the ranks: gathered and reduced there, in the
// order of LibTorch's streams.

#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "dlaunch/torch/distributed.h"
#include "dlaunch/torch/fully_sharded.h"
#include "tests/runtime/torch/divided_nets.h"
#include "tests/runtime/torch/small_nets.h"
#include "tests/runtime/torch/torch_devices.h"

namespace dlaunch::torch {
namespace {

using divided_nets::all_units;
using divided_nets::Blocks;
using small_nets::batch;
using small_nets::loss_of;
using small_nets::part;
using small_nets::set_parameters;
using test::in_stream;
using test::init_for;
using test::run_ranks;
using test::torch_device_of;

constexpr int steps = 5;

// Which parameters differ from those that one process computes on the CPU; empty: none.
std::string differences(FullyShardedDataParallel<divided_nets::BlocksImpl>& model, const Blocks& wanted) {
  const auto full = model.full_parameters();
  std::string text;
  for (const auto& item : wanted->named_parameters()) {
    const at::Tensor own = model.module()->named_parameters()[item.key()].detach().cpu();
    if (!own.allclose(item.value(), 1e-4, 1e-5)) text += item.key() + " differs; ";
  }
  return text;
}

class DeviceSharded : public testing::TestWithParam<const char*> {};

// backward() is in another stream than forward(): memory that the one frees the other may still use.
TEST_P(DeviceSharded, TrainsAsOneProcessDoes) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    const auto guard = in_stream(test::make_stream(), rank);
    cudaStream_t const other = test::make_stream();
    Blocks whole;
    Blocks divided;
    set_parameters(*whole, 0.5, 0.3);
    set_parameters(*divided, rank == 0 ? 0.5 : 9, 0.3);
    divided->to(torch_device_of(rank));
    FullyShardedDataParallel model(divided, {.units = all_units});
    ::torch::optim::SGD reference(whole->parameters(), ::torch::optim::SGDOptions(0.05).momentum(0.9));
    ::torch::optim::SGD optimizer(model.shards(), ::torch::optim::SGDOptions(0.05).momentum(0.9));
    for (int step = 0; step < steps; ++step) {
      reference.zero_grad();
      loss_of(whole(batch(step))).backward();
      const double wanted = ::torch::nn::utils::clip_grad_norm_(whole->parameters(), 0.05);
      reference.step();
      optimizer.zero_grad();
      const at::Tensor loss = loss_of(model(part(batch(step), rank, 2).to(torch_device_of(rank))));
      {
        const auto elsewhere = in_stream(other, rank);
        loss.backward();
        const double norm = model.clip_grad_norm(0.05);
        if (std::abs(norm - wanted) > 1e-4 * wanted) return "norm " + std::to_string(norm);
        optimizer.step();
        (void)loss.cpu();
      }
      if (const std::string wrong = differences(model, whole); !wrong.empty())
        return "step " + std::to_string(step) + ": " + wrong;
    }
    const FullyShardedStatistics statistics = model.statistics();
    return model.shards().front().device().str().substr(0, 4) + " " +
           (statistics.gathered_bytes == 0 ? "none gathered" : "gathered");
  });
  test::expect_all_say(results, "cuda none gathered");
}

TEST_P(DeviceSharded, GradientsAddUpAndUnevenInputsJoin) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    Blocks net;
    set_parameters(*net, 0.5, 0.3);
    net->to(torch_device_of(rank));
    FullyShardedDataParallel model(net, {.units = all_units});
    Blocks whole;
    set_parameters(*whole, 0.5, 0.3);
    const auto input = [rank](int step) { return part(batch(step), rank, 2).to(torch_device_of(rank)); };
    {
      const auto no_sync = model.no_sync();
      loss_of(model(input(0))).backward();
    }
    loss_of(model(input(1))).backward();
    (loss_of(whole(batch(0))) + loss_of(whole(batch(1)))).backward();
    const at::Tensor scale = model.gather(0, model.shards()[0].grad()).cpu();
    if (!scale.allclose(whole->scale.grad(), 1e-4, 1e-5)) return std::string("not the sum");
    ::torch::optim::SGD optimizer(model.shards(), 0.1);
    auto join = model.join();
    for (int step = 0; step < 2 + rank; ++step) {
      optimizer.zero_grad();
      loss_of(model(input(step))).backward();
      optimizer.step();
    }
    join.finish([&] { optimizer.step(); });
    const auto full = model.full_parameters();
    const at::Tensor sum = net->first->weight.detach().clone();
    all_reduce(sum);
    return std::string(sum.cpu().allclose(2 * net->first->weight.detach().cpu()) ? "equal" : "different");
  });
  test::expect_all_say(results, "equal");
}

// The parameters are gathered in one stream, and read and freed in another one, which is busy.
TEST_P(DeviceSharded, FreedMemoryIsNotUsedAgainTooEarly) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    cudaStream_t const one = test::make_stream();
    cudaStream_t const other = test::make_stream();
    Blocks net;
    set_parameters(*net, 0.5, 0.3);
    const at::Tensor wanted = net->middle->weight.detach().clone();
    net->to(torch_device_of(rank));
    FullyShardedDataParallel model(net, {.units = all_units});
    const at::Tensor seen = at::zeros_like(wanted).to(torch_device_of(rank));
    const at::NoGradGuard no_grad;
    using FullParameters = ShardedDataParallel::FullParameters;
    for (int round = 0; round < test::repeats; ++round) {
      std::unique_ptr<FullParameters> full;
      {
        const auto guard = in_stream(one, rank);
        full.reset(new FullParameters(model.full_parameters()));
        test::require(cudaStreamSynchronize(one), "cudaStreamSynchronize");
      }
      test::Gate gate;
      {
        const auto guard = in_stream(other, rank);
        gate.hold(other);
        seen.copy_(net->middle->weight);
        full.reset();
      }
      {
        const auto guard = in_stream(one, rank);
        std::vector<at::Tensor> written;  // of the sizes of what was freed
        for (int i = 0; i < 4; ++i) {
          for (const at::Tensor& shard : model.shards()) {
            written.push_back(at::empty({2 * shard.numel()}, shard.options()));
            test::require(cudaMemsetAsync(written.back().data_ptr(), 1, written.back().nbytes(), one),
                          "cudaMemsetAsync");
          }
        }
        gate.open();
        test::require(cudaStreamSynchronize(other), "cudaStreamSynchronize");
      }
      if (!seen.cpu().equal(wanted)) return "round " + std::to_string(round);
    }
    return std::string("kept");
  });
  test::expect_all_say(results, "kept");
}

INSTANTIATE_TEST_SUITE_P(WithBackend, DeviceSharded, testing::Values("nccl", "gloo", "cpu:gloo,cuda:nccl"),
                         test::name_of_backend);

TEST(DeviceShardedErrors, AModuleOnTwoDevicesIsRejected) {
  const auto results = run_ranks(1, [](int rank) {
    init_for(rank, "gloo");
    Blocks net;
    net->last->to(torch_device_of(rank));
    return test::thrown_by([&] { const FullyShardedDataParallel model(net); });
  });
  test::expect_all_say(results,
                       "rank 0: last.weight is on cuda:0, and scale on cpu; FullyShardedDataParallel takes "
                       "modules on one device");
}

}  // namespace
}  // namespace dlaunch::torch
