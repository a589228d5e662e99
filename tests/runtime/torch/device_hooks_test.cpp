// Communication hooks of modules on CUDA devices: they compute there, in the order of LibTorch's streams, and
// give what they give on the CPU.

#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/torch/comm_hooks.h"
#include "dlaunch/torch/data_parallel.h"
#include "dlaunch/torch/power_sgd.h"
#include "tests/runtime/torch/small_nets.h"
#include "tests/runtime/torch/torch_devices.h"

namespace dlaunch::torch {
namespace {

using small_nets::batch;
using small_nets::loss_of;
using small_nets::Net;
using small_nets::part;
using small_nets::set_parameters;
using test::in_stream;
using test::init_for;
using test::run_ranks;
using test::torch_device_of;

constexpr int width = 32;  // of the layer `extra`, which PowerSGD compresses
constexpr int compared_steps = 6;

using Gradients = std::vector<at::Tensor>;  // on the CPU

// Of all steps.
std::vector<Gradients> gradients_on(at::Device device, int rank, const CommHook& hook,
                                    const DataParallelOptions& options) {
  Net net(width);
  set_parameters(*net, 0.5, 0.3);
  net->to(device);
  DistributedDataParallel model(net, options);
  model.register_comm_hook(hook);
  std::vector<Gradients> found;
  for (int step = 0; step < compared_steps; ++step) {
    net->zero_grad();
    loss_of(model(part(batch(step, 8), rank, 2).to(device))).backward();
    Gradients now;
    for (const at::Tensor& parameter : net->parameters()) now.push_back(parameter.grad().cpu().clone());
    found.push_back(std::move(now));
  }
  return found;
}

std::string difference(const std::vector<Gradients>& found, const std::vector<Gradients>& wanted) {
  for (std::size_t step = 0; step < wanted.size(); ++step) {
    for (std::size_t i = 0; i < wanted[step].size(); ++i) {
      if (!found[step][i].allclose(wanted[step][i], 1e-3, 1e-5))
        return "gradient " + std::to_string(i) + " of step " + std::to_string(step) + " differs";
    }
  }
  return "equal";
}

class DeviceHooks : public testing::TestWithParam<const char*> {
 protected:
  // In a group of the CPU in the same ranks. `make`: a hook for each of both.
  static void expect_as_on_cpu(const std::function<CommHook()>& make, const DataParallelOptions& options) {
    const auto results = run_ranks(2, [&](int rank) {
      init_for(rank, GetParam());
      DataParallelOptions on_cpu = options;
      on_cpu.process_group = new_group({}, {.backend = "gloo"});
      const std::vector<Gradients> wanted = gradients_on(at::kCPU, rank, make(), on_cpu);
      const auto guard = in_stream(test::make_stream(), rank);
      return difference(gradients_on(torch_device_of(rank), rank, make(), options), wanted);
    });
    test::expect_all_say(results, "equal");
  }
};

TEST_P(DeviceHooks, HalvesAreThoseOfTheCpu) {
  for (const bool views : {false, true}) {
    const DataParallelOptions options{.first_bucket_bytes = 16, .gradient_as_bucket_view = views};
    expect_as_on_cpu([] { return fp16_compress_hook(); }, options);
    expect_as_on_cpu([] { return bf16_compress_hook(); }, options);
  }
}

// In buckets of one gradient, and in two.
TEST_P(DeviceHooks, PowerSgdGivesTheMeansOfTheCpu) {
  for (const int cap : {0, 25}) {
    for (const double epsilon : {0., 1e-6}) {
      const PowerSgdOptions options{
          .matrix_approximation_rank = 2, .start_powerSGD_iter = 2, .orthogonalization_epsilon = epsilon};
      expect_as_on_cpu([&] { return PowerSgd(options).hook(); },
                       {.first_bucket_bytes = 16, .bucket_cap_mb = static_cast<std::size_t>(cap)});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WithBackend, DeviceHooks, testing::Values("nccl", "gloo", "cpu:gloo,cuda:nccl"),
                         test::name_of_backend);

}  // namespace
}  // namespace dlaunch::torch
