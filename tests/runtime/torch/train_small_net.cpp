// Trains the net of train_small_net.py on the same data with the same optimizer, and prints the loss of each
// step, then the sum of each parameter.
//
//   dlaunch --nproc-per-node=2 train_small_net STEPS views|copies
#include <dlaunch/distributed.h>
#include <dlaunch/torch/data_parallel.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/runtime/torch/small_nets.h"

int main(int argc, char** argv) {
  if (argc != 3) return EXIT_FAILURE;
  at::set_num_threads(1);
  dlaunch::init_process_group();
  const int rank = dlaunch::get_rank();
  const int ranks = dlaunch::get_world_size();
  small_nets::Net net(64);
  small_nets::set_parameters(*net, 0.5, 0.1);
  dlaunch::torch::DataParallelOptions options;
  options.first_bucket_bytes = 256;
  options.gradient_as_bucket_view = std::string(argv[2]) == "views";
  dlaunch::torch::DistributedDataParallel model(net, options);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < std::atoi(argv[1]); ++step) {
    optimizer.zero_grad();
    const at::Tensor input = small_nets::part(small_nets::batch(step, 64), rank, ranks);
    const at::Tensor loss = small_nets::loss_of(model(input));
    loss.backward();
    optimizer.step();
    if (rank == 0) std::printf("%.9g\n", loss.item<double>());
  }
  if (rank == 0)
    for (const at::Tensor& parameter : model.parameters())
      std::printf("%.9g\n", parameter.sum().item<double>());
  dlaunch::destroy_process_group();
}
