// A model in two workers, with several parts of a batch on their way at once, trained with distributed
// autograd.
//
//   $ dlaunch --nproc-per-node=3 rpc_pipeline_torch
//
// Rank 0 has the data and the loss, ranks 1 and 2 a stage of the model each. The first stage passes its
// output on to the second by itself: rank 0 only sees the end. Both stages work at the same time, on
// different parts. Rank 0 compares losses and parameters with those of the same training in one process.
#include <dlaunch/torch/rpc.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace dist_autograd = dlaunch::torch::dist_autograd;
namespace rpc = dlaunch::rpc;

constexpr int steps = 5;
constexpr int parts = 4;
constexpr double learning_rate = 0.1;

// The stage of a worker; both workers have this program.
struct Stage {
  explicit Stage(std::int64_t inputs, std::int64_t outputs) : linear(inputs, outputs) {}
  torch::nn::Linear linear;
};
std::shared_ptr<Stage> make_stage(std::int64_t inputs, std::int64_t outputs) {
  return std::make_shared<Stage>(inputs, outputs);
}
DLAUNCH_RPC(make_stage);
at::Tensor finish(Stage& stage, const at::Tensor& input) { return stage.linear->forward(input); }
DLAUNCH_RPC(finish);
// Holds no thread while the next stage works.
dlaunch::Future<at::Tensor> begin(Stage& stage, const rpc::RRef<Stage>& next, const at::Tensor& input) {
  return next.rpc_async(finish, torch::tanh(stage.linear->forward(input)));
}
DLAUNCH_RPC(begin);
std::vector<rpc::RRef<at::Tensor>> parameters_of(Stage& stage) {
  std::vector<rpc::RRef<at::Tensor>> all;
  for (const at::Tensor& parameter : stage.linear->parameters()) all.emplace_back(parameter);
  return all;
}
DLAUNCH_RPC(parameters_of);

at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target) {
  return (output - target).pow(2).mean();
}

void train() {
  const rpc::RRef<Stage> first = rpc::remote("worker1", make_stage, 8, 16);
  const rpc::RRef<Stage> second = rpc::remote("worker2", make_stage, 16, 2);
  std::vector<rpc::RRef<at::Tensor>> parameters = first.rpc_sync(parameters_of);
  for (auto& parameter : second.rpc_sync(parameters_of)) parameters.push_back(parameter);
  const dlaunch::torch::DistributedOptimizer<torch::optim::SGD> optimizer(
      parameters, torch::optim::SGDOptions(learning_rate));

  // The same model in this process.
  std::vector<at::Tensor> copies;
  for (const auto& parameter : parameters)
    copies.push_back(parameter.to_here().detach().clone().set_requires_grad(true));
  torch::optim::SGD local(copies, learning_rate);

  const at::Tensor input = torch::randn({32, 8});
  const at::Tensor target = torch::stack({input.sum(1), input.select(1, 0)}, 1);
  for (int step = 1; step <= steps; ++step) {
    const dist_autograd::Context context;
    std::vector<dlaunch::Future<at::Tensor>> outputs;
    for (const at::Tensor& part : input.chunk(parts)) outputs.push_back(first.rpc_async(begin, second, part));
    std::vector<at::Tensor> results;
    for (const auto& output : outputs) results.push_back(output.wait());
    const at::Tensor loss = loss_of(torch::cat(results), target);
    dist_autograd::backward(context.id(), {loss});
    optimizer.step(context.id());

    const at::Tensor hidden = torch::tanh(torch::linear(input, copies[0], copies[1]));
    const at::Tensor same = loss_of(torch::linear(hidden, copies[2], copies[3]), target);
    local.zero_grad();
    same.backward();
    local.step();
    std::printf("step %d: loss %.5f, in one process %.5f\n", step, loss.item<double>(), same.item<double>());
  }
  bool equal = true;
  for (std::size_t i = 0; i < copies.size(); ++i)
    equal = equal && parameters[i].to_here().allclose(copies[i], 1e-4, 1e-6);
  std::printf("the parameters are %s\n", equal ? "the same" : "different");
}

}  // namespace

int main() {
  try {
    torch::manual_seed(1);
    const std::string rank = std::getenv("RANK") ? std::getenv("RANK") : "0";
    rpc::init_rpc("worker" + rank);
    if (rank == "0") train();
    rpc::shutdown();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rpc_pipeline_torch: %s\n", e.what());
    return 1;
  }
  return 0;
}
