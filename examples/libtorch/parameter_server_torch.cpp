// A parameter server: the model lives in one worker, and trainers compute with it as they come.
//
//   $ dlaunch --nproc-per-node=3 parameter_server_torch
//
// Rank 0 is the server. Each trainer sends its batches through the server's model under a context of its own;
// the gradients stay at the server, whose optimizer makes a step when a trainer asks for it. The trainers do
// not wait for each other. The server only serves: its program is init_rpc() and shutdown().
#include <dlaunch/torch/rpc.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

namespace dist_autograd = dlaunch::torch::dist_autograd;
namespace rpc = dlaunch::rpc;

constexpr int steps = 60;

struct Server {
  torch::nn::Linear model{3, 1};
  torch::optim::SGD optimizer{model->parameters(), 0.05};
  std::mutex mutex;  // a step does not change what a forward() reads
  int updates = 0;
};
// All trainers get the same one.
std::shared_ptr<Server> the_server() {
  static const auto only = std::make_shared<Server>();
  return only;
}
DLAUNCH_RPC(the_server);
at::Tensor predict(Server& server, const at::Tensor& input) {
  const std::lock_guard lock(server.mutex);
  // A copy of the parameters belongs to this pass: steps of others do not change it before its backward().
  return torch::linear(input, server.model->weight.clone(), server.model->bias.clone());
}
DLAUNCH_RPC(predict);
void update(Server& server, std::int64_t context) {
  const auto gradients = dist_autograd::get_gradients(context);
  const std::lock_guard lock(server.mutex);
  for (at::Tensor& parameter : server.model->parameters()) parameter.mutable_grad() = gradients.at(parameter);
  server.optimizer.step();
  ++server.updates;
}
DLAUNCH_RPC(update);

void train(int trainer) {
  const rpc::RRef<Server> server = rpc::remote("ps", the_server);
  const at::Tensor truth = torch::tensor({{1.F}, {-2.F}, {0.5F}});
  double loss_value = 0;
  for (int step = 0; step < steps; ++step) {
    const at::Tensor input = torch::randn({16, 3});
    const dist_autograd::Context context;
    const at::Tensor loss = (server.rpc_sync(predict, input) - torch::matmul(input, truth)).pow(2).mean();
    dist_autograd::backward(context.id(), {loss});
    server.rpc_sync(update, context.id());
    loss_value = loss.item<double>();
  }
  std::printf("trainer%d: the loss is %s after %d steps\n", trainer, loss_value < 0.1 ? "small" : "large",
              steps);
  std::fflush(stdout);
}

}  // namespace

int main() {
  try {
    const int rank = std::getenv("RANK") ? std::atoi(std::getenv("RANK")) : 0;
    torch::manual_seed(static_cast<std::uint64_t>(rank));
    rpc::init_rpc(rank == 0 ? "ps" : "trainer" + std::to_string(rank));
    if (rank > 0) train(rank);
    rpc::shutdown();
    if (rank == 0) std::printf("ps: %d steps\n", the_server()->updates);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "parameter_server_torch: %s\n", e.what());
    return 1;
  }
  return 0;
}
