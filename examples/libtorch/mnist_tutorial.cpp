// PyTorch's tutorial "Writing Distributed Applications with PyTorch", in C++: processes that this program
// starts itself, data cut into parts, and gradients averaged by hand. (train_mnist_torch.cpp lets
// DistributedDataParallel do it.)
//
//   $ mnist_tutorial [RANKS [EPOCHS [FOLDER]]]
#include <dlaunch/distributed.h>
#include <dlaunch/sampler.h>
#include <dlaunch/spawn.h>
#include <dlaunch/torch/distributed.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "mnist_net.h"

namespace {

// This rank's part of the data, and how many images a step takes.
std::pair<std::vector<std::size_t>, std::size_t> partition_dataset(std::size_t images) {
  const auto size = static_cast<std::size_t>(dlaunch::get_world_size());
  const std::vector<double> sizes(size, 1.0 / static_cast<double>(size));
  const dlaunch::DataPartitioner partition(images, sizes);
  const auto own = partition.use(static_cast<std::size_t>(dlaunch::get_rank()));
  return {std::vector<std::size_t>(own.begin(), own.end()), 128 / size};
}

void average_gradients(Net& model) {
  const int size = dlaunch::get_world_size();
  for (const torch::Tensor& parameter : model->parameters()) {
    torch::Tensor gradient = parameter.grad();
    dlaunch::torch::all_reduce(gradient);
    gradient /= size;
  }
}

void run(int epochs, const std::string& folder) {
  torch::manual_seed(1234);
  at::set_num_threads(1);
  const Images train_set = images_of(mnist::read_training_set(folder));
  const auto [own, batch] = partition_dataset(train_set.size());
  Net model;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double epoch_loss = 0;
    std::size_t batches = 0;
    for (std::size_t begin = 0; begin < own.size(); begin += batch, ++batches) {
      const auto end = std::min(own.size(), begin + batch);
      const Images images = train_set.at(
          {own.begin() + static_cast<std::ptrdiff_t>(begin), own.begin() + static_cast<std::ptrdiff_t>(end)});
      optimizer.zero_grad();
      const torch::Tensor loss = torch::nll_loss(model(images.pixels), images.labels);
      epoch_loss += loss.item<double>();
      loss.backward();
      average_gradients(model);
      optimizer.step();
    }
    std::printf("Rank %d, epoch %d: %.4f\n", dlaunch::get_rank(), epoch,
                epoch_loss / static_cast<double>(batches));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 10;
  const std::string folder = argc > 3 ? argv[3] : MNIST_DATA_DIR;
  if (ranks < 1 || epochs < 1) {
    std::fprintf(stderr, "usage: mnist_tutorial [RANKS [EPOCHS [FOLDER]]]\n");
    return EXIT_FAILURE;
  }
  try {
    dlaunch::spawn(
        [&](int /*rank*/) {
          dlaunch::init_process_group();
          run(epochs, folder);
          dlaunch::destroy_process_group();
        },
        ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mnist_tutorial: %s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
