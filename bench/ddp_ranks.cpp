// One side of ddp_bench.py: steps of data-parallel training with LibTorch and libdlaunch_torch. Prints, in
// milliseconds, the median of a step, of a step that reduces nothing, and of the reductions alone.
//
//   dlaunch --nproc-per-node=2 ddp_ranks STEPS views|copies BATCH cpu|cuda LAYERS BUCKET_MB
#include <dlfcn.h>

#include <dlaunch/distributed.h>
#include <dlaunch/torch/data_parallel.h>
#include <dlaunch/torch/distributed.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// 25.2 million parameters, half of the tensors matrices.
std::int64_t width_of(int layers) {
  constexpr double elements = 2240. * 2240 * 5;
  return static_cast<std::int64_t>(std::sqrt(elements / layers));
}

torch::nn::Sequential make_net(int layers) {
  const std::int64_t width = width_of(layers);
  torch::nn::Sequential net;
  for (int i = 0; i < layers; ++i) {
    net->push_back(torch::nn::Linear(width, width));
    net->push_back(torch::nn::ReLU());
  }
  return net;
}

// Until the device has done it.
double milliseconds(const at::Tensor& on_device, const auto& call) {
  dlaunch::barrier();
  const auto begin = std::chrono::steady_clock::now();
  call();
  if (on_device.is_cuda()) (void)on_device.view(-1)[0].item<float>();
  // Of the slowest rank.
  std::vector<double> time{
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count()};
  dlaunch::all_reduce(dlaunch::Tensor::of(time), dlaunch::ReduceOp::max);
  return time[0];
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return EXIT_FAILURE;
  at::set_num_threads(1);
  const bool is_on_gpu = std::string(argv[4]) == "cuda";
  // The program is linked with the part of LibTorch that computes on the CPU.
  if (is_on_gpu && dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "ddp_ranks: %s\n", dlerror());
    return EXIT_FAILURE;
  }
  const at::Device device(is_on_gpu ? "cuda:0" : "cpu");  // the ranks share it
  dlaunch::init_process_group({.backend = "gloo"});
  dlaunch::torch::DataParallelOptions options;
  options.gradient_as_bucket_view = std::string(argv[2]) == "views";
  options.bucket_cap_mb = std::strtoul(argv[6], nullptr, 10);
  const int layers = std::atoi(argv[5]);
  torch::nn::Sequential net = make_net(layers);
  net->to(device);
  dlaunch::torch::DistributedDataParallel model(net.ptr(), options);
  const at::Tensor input = torch::randn({std::atoi(argv[3]), width_of(layers)}).to(device);
  const auto step = [&] {
    model.zero_grad();
    model(input).mean().backward();
  };
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model.parameters()) gradients.push_back(torch::zeros_like(parameter));
  std::vector<double> whole;
  std::vector<double> without;
  std::vector<double> alone;
  for (int i = 0; i < 3; ++i) step();
  for (int i = 0; i < std::atoi(argv[1]); ++i) {
    whole.push_back(milliseconds(input, step));
    without.push_back(milliseconds(input, [&] {
      const auto guard = model.no_sync();
      step();
    }));
    alone.push_back(milliseconds(input, [&] {
      for (const at::Tensor& gradient : gradients) dlaunch::torch::all_reduce(gradient);
    }));
  }
  if (dlaunch::get_rank() == 0)
    std::printf("%.3f %.3f %.3f\n", median(whole), median(without), median(alone));
  dlaunch::destroy_process_group();
}
