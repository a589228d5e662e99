// Data parallelism and remote calls in one training: a large table of embeddings lives in one worker, and the
// trainers, which have a replica of the dense layers each, use it by remote calls.
//
//   $ dlaunch --nproc-per-node=3 ddp_rpc_torch
//
// Rank 0 has the table and starts the trainers by remote calls. Each trainer computes its loss under a
// context of its own: in dist_autograd::backward(), DistributedDataParallel averages the gradients of the
// dense layers over the trainers, while those of the table go to its worker.
#include <dlaunch/distributed.h>
#include <dlaunch/torch/data_parallel.h>
#include <dlaunch/torch/rpc.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace {

namespace dist_autograd = dlaunch::torch::dist_autograd;
namespace rpc = dlaunch::rpc;
using Table = dlaunch::torch::RemoteModule<torch::nn::EmbeddingBag>;
using Optimizer = dlaunch::torch::DistributedOptimizer<torch::optim::SGD>;

constexpr int steps = 30;
constexpr int rows = 20;
constexpr int width = 8;

int number(const char* name) { return std::getenv(name) ? std::atoi(std::getenv(name)) : 0; }

std::optional<dlaunch::ProcessGroup> trainers;

struct Trained {
  double first_loss = 0;
  double last_loss = 0;
  std::vector<at::Tensor> dense;

  template <class Archive>
  friend void serialize(Archive& archive, Trained& trained) {
    archive(trained.first_loss, trained.last_loss, trained.dense);
  }
};

// In a trainer. Each has data of its own: bags of rows, and how many of them are even.
Trained train(const Table& table, int trainer) {
  torch::manual_seed(static_cast<std::uint64_t>(trainer));
  torch::nn::Linear layer(width, 1);
  dlaunch::torch::DistributedDataParallel model(layer, {.process_group = *trainers});
  std::vector<rpc::RRef<at::Tensor>> parameters = table.remote_parameters();
  for (const at::Tensor& parameter : model.parameters()) parameters.emplace_back(parameter);
  const Optimizer optimizer(parameters, torch::optim::SGDOptions(0.05));
  Trained result;
  for (int step = 0; step < steps; ++step) {
    const at::Tensor bags = torch::randint(rows, {16, 4}, at::kLong);
    const at::Tensor target = (bags % 2 == 0).sum(1, true).to(at::kFloat);
    const dist_autograd::Context context;
    const at::Tensor loss = (model(table.forward(bags)) - target).pow(2).mean();
    dist_autograd::backward(context.id(), {loss});
    optimizer.step(context.id());
    (step == 0 ? result.first_loss : result.last_loss) = loss.item<double>();
  }
  for (const at::Tensor& parameter : model.parameters()) result.dense.push_back(parameter.detach());
  return result;
}
DLAUNCH_RPC(train);

void lead(int workers) {
  const Table table("ps/cpu", rows, width);
  std::vector<dlaunch::Future<Trained>> running;
  for (int rank = 1; rank < workers; ++rank)
    running.push_back(rpc::rpc_async("trainer" + std::to_string(rank), train, table, rank));
  bool equal = true;
  bool falls = true;
  for (const auto& one : running) {
    const Trained& trained = one.wait();
    falls = falls && trained.last_loss < trained.first_loss;
    for (std::size_t i = 0; i < trained.dense.size(); ++i)
      equal = equal && trained.dense[i].equal(running[0].wait().dense[i]);
  }
  std::printf("%d trainers: the loss %s\n", workers - 1, falls ? "falls" : "does not fall");
  std::printf("the dense layers of the trainers are %s\n", equal ? "the same" : "different");
}

}  // namespace

int main() {
  try {
    const int rank = number("RANK");
    const int workers = number("WORLD_SIZE");
    dlaunch::init_process_group({.backend = "gloo"});
    std::vector<int> ranks;
    for (int trainer = 1; trainer < workers; ++trainer) ranks.push_back(trainer);
    trainers = dlaunch::new_group(ranks);
    rpc::init_rpc(rank == 0 ? "ps" : "trainer" + std::to_string(rank));
    if (rank == 0) lead(workers);
    rpc::shutdown();
    trainers.reset();
    dlaunch::destroy_process_group();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ddp_rpc_torch: %s\n", e.what());
    return 1;
  }
  return 0;
}
