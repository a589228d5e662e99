// Elastic data-parallel training with LibTorch: DistributedDataParallel, a sampler, and a checkpoint from
// which the job goes on after a failure, with as many ranks as there are then.
//
//   $ dlaunch --nproc-per-node=4 --max-restarts=3 train_mnist_torch --checkpoint=mnist.pt
#include <dlaunch/distributed.h>
#include <dlaunch/torch/data_parallel.h>
#include <dlaunch/torch/distributed.h>
#include <dlaunch/torch/sampler.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "mnist_net.h"

namespace {

struct Options {
  int epochs = 3;
  std::size_t batch = 64;  // of all ranks together
  std::string checkpoint;  // empty: none
  std::string data = MNIST_DATA_DIR;
  // For trying it out: the last rank fails there once, in backward().
  int fail_in_epoch = -1;
  std::string failure = "killed";  // or a "hook" that throws, or no "memory"
};

int number_in(std::string_view argument, const std::string& value, int least) {
  int number = 0;
  const char* const end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || rest != end || number < least) {
    throw std::invalid_argument(std::string(argument) + " is not a number in its range, which begins with " +
                                std::to_string(least));
  }
  return number;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const std::string value(equals == std::string_view::npos ? "" : argument.substr(equals + 1));
    if (name == "--epochs")
      options.epochs = number_in(argument, value, 0);
    else if (name == "--batch-size")
      options.batch = static_cast<std::size_t>(number_in(argument, value, 1));
    else if (name == "--checkpoint")
      options.checkpoint = value;
    else if (name == "--data")
      options.data = value;
    else if (name == "--fail-in-epoch")
      options.fail_in_epoch = number_in(argument, value, 0);
    else if (name == "--failure" && (value == "killed" || value == "hook" || value == "memory"))
      options.failure = value;
    else
      throw std::invalid_argument(
          "unknown option " + std::string(argument) +
          "; there are --epochs=, --batch-size=, --checkpoint=, --data=, --fail-in-epoch=, "
          "--failure=killed|hook|memory");
  }
  return options;
}

// Whole or not there: written beside its place, then renamed. A world that was replaced meanwhile has a lower
// token than the file's, and does not write.
void save(const std::string& path, const Net& net, const torch::optim::Optimizer& optimizer,
          int epochs_done) {
  const auto token = static_cast<std::int64_t>(dlaunch::fencing_token());
  if (std::filesystem::exists(path)) {
    torch::serialize::InputArchive old;
    old.load_from(path);
    c10::IValue written;
    old.read("token", written);
    if (written.toInt() > token) throw std::runtime_error(path + " was written by a later world of this job");
  }
  torch::serialize::OutputArchive archive;
  torch::serialize::OutputArchive of_net;
  torch::serialize::OutputArchive of_optimizer;
  net->save(of_net);
  optimizer.save(of_optimizer);
  archive.write("net", of_net);
  archive.write("optimizer", of_optimizer);
  archive.write("epochs", c10::IValue(static_cast<std::int64_t>(epochs_done)));
  archive.write("token", c10::IValue(token));
  archive.save_to(path + ".new");
  std::filesystem::rename(path + ".new", path);
}

// Returns the epochs that are done.
int load(const std::string& path, Net& net, torch::optim::Optimizer& optimizer) {
  if (path.empty() || !std::filesystem::exists(path)) return 0;
  torch::serialize::InputArchive archive;
  archive.load_from(path);
  torch::serialize::InputArchive of_net;
  torch::serialize::InputArchive of_optimizer;
  archive.read("net", of_net);
  archive.read("optimizer", of_optimizer);
  net->load(of_net);
  optimizer.load(of_optimizer);
  c10::IValue epochs;
  archive.read("epochs", epochs);
  return static_cast<int>(epochs.toInt());
}

double accuracy(Net& net, const Images& images) {
  const torch::NoGradGuard no_grad;
  net->eval();
  const auto right = net(images.pixels).argmax(1).eq(images.labels).sum().item<double>();
  net->train();
  return right / static_cast<double>(images.size());
}

// Returns the mean loss over all ranks.
double train_epoch(dlaunch::torch::DistributedDataParallel<NetImpl>& model,
                   torch::optim::Optimizer& optimizer, const Images& images,
                   dlaunch::torch::DistributedSampler& sampler, std::size_t batch) {
  torch::Tensor sums = torch::zeros({2}, torch::kDouble);  // losses, steps
  sampler.reset();
  while (const auto indices = sampler.next(batch)) {
    const Images part = images.at(*indices);
    optimizer.zero_grad();
    const torch::Tensor loss = torch::nll_loss(model(part.pixels), part.labels);
    loss.backward();
    optimizer.step();
    sums[0] += loss.item<double>();
    sums[1] += 1;
  }
  dlaunch::torch::all_reduce(sums);
  return (sums[0] / sums[1]).item<double>();
}

void fail_in_backward(const std::string& failure, dlaunch::torch::DistributedDataParallel<NetImpl>& model) {
  if (failure == "hook") {
    model.register_comm_hook([](const dlaunch::GradientBucket&) -> dlaunch::Work {
      throw std::runtime_error("the communication hook has failed");
    });
    return;
  }
  model->fc1->weight.register_hook([failure](const torch::Tensor&) {
    if (failure == "killed") std::raise(SIGKILL);
    (void)torch::empty({std::int64_t{1} << 50}, torch::kByte);  // no machine has so much
  });
}

bool is_first_attempt() {
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return restarts != nullptr && std::string_view(restarts) == "0";
}

void train(const Options& options) {
  torch::manual_seed(1);
  at::set_num_threads(1);
  const int rank = dlaunch::get_rank();
  const int ranks = dlaunch::get_world_size();
  const Images images = images_of(mnist::read_training_set(options.data));
  Net net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
  const int done = load(options.checkpoint, net, optimizer);
  if (rank == 0 && done > 0) std::printf("going on after epoch %d with %d ranks\n", done, ranks);
  dlaunch::torch::DistributedDataParallel model(net, {.gradient_as_bucket_view = true});
  torch::manual_seed(
      static_cast<std::uint64_t>(100 * (done + 1) + rank));  // dropout differs between the ranks
  dlaunch::torch::DistributedSampler sampler(images.size(), ranks, rank);
  for (int epoch = done; epoch < options.epochs; ++epoch) {
    if (epoch == options.fail_in_epoch && rank == ranks - 1 && is_first_attempt())
      fail_in_backward(options.failure, model);
    sampler.set_epoch(static_cast<std::uint64_t>(epoch));
    const double loss =
        train_epoch(model, optimizer, images, sampler,
                    std::max<std::size_t>(1, options.batch / static_cast<std::size_t>(ranks)));
    if (rank != 0) continue;
    std::printf("epoch %d: loss %.4f\n", epoch + 1, loss);
    std::fflush(stdout);
    if (!options.checkpoint.empty()) save(options.checkpoint, net, optimizer, epoch + 1);
  }
  if (rank == 0)
    std::printf("accuracy %.2f %%\n", 100 * accuracy(net, images_of(mnist::read_test_set(options.data))));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    dlaunch::init_process_group();
    train(options);
    dlaunch::destroy_process_group();
    return EXIT_SUCCESS;
  } catch (const c10::Error& error) {  // the call stack, which what() ends with, would hide the reason
    std::fprintf(stderr, "train_mnist_torch: %s\n", error.what_without_backtrace());
    return EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_mnist_torch: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
