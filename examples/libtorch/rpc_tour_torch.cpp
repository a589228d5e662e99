// The calls of PyTorch's documents on remote procedure calls, each once, with tensors of LibTorch.
//
//   $ dlaunch --nproc-per-node=2 rpc_tour_torch
//
// Rank 0 calls; rank 1 serves. Programs in which ranks differ start with init_rpc() and end with shutdown(),
// which waits until all have come there.
#include <dlaunch/torch/rpc.h>
#include <torch/torch.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

namespace dist_autograd = dlaunch::torch::dist_autograd;
namespace rpc = dlaunch::rpc;

at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return a + b; }
DLAUNCH_RPC(add);
int least(int a, int b) { return std::min(a, b); }
DLAUNCH_RPC(least);

void print(const char* what, const at::Tensor& tensor) { std::cout << what << "\n" << tensor << std::endl; }

void call() {
  print("rpc_sync:", rpc::rpc_sync("worker1", add, torch::ones(2), torch::tensor(3.F)));

  const auto sum = rpc::rpc_async("worker1", add, torch::ones(2), torch::tensor(3.F));
  const auto smaller = rpc::rpc_async("worker1", least, 1, 2);
  print("rpc_async:", sum.wait() + smaller.wait());

  const auto first = rpc::remote("worker1", add, torch::ones(2), torch::tensor(3.F));
  const auto second = rpc::remote("worker1", add, torch::ones(2), torch::tensor(1.F));
  print("remote:", first.to_here() + second.to_here());
}

void differentiate() {
  const dist_autograd::Context context;
  const at::Tensor t1 = torch::rand({3, 3}, at::requires_grad());
  const at::Tensor t2 = torch::rand({3, 3}, at::requires_grad());
  const at::Tensor loss = rpc::rpc_sync("worker1", add, t1, t2).sum();
  dist_autograd::backward(context.id(), {loss});
  const auto gradients = dist_autograd::get_gradients(context.id());
  print("gradient of t1:", gradients.at(t1));
  print("gradient of t2:", gradients.at(t2));
}

void use_module() {
  const dlaunch::torch::RemoteModule<torch::nn::Linear> linear("worker1/cpu", 20, 30);
  const at::Tensor output = linear.forward_async(torch::randn({128, 20})).wait();
  std::cout << "RemoteModule: " << output.sizes() << "\n";

  const dlaunch::torch::DistributedOptimizer<torch::optim::SGD> optimizer(linear.remote_parameters(),
                                                                          torch::optim::SGDOptions(0.05));
  const at::Tensor input = torch::randn({128, 20});
  double before = 0;
  double after = 0;
  for (int step = 0; step < 20; ++step) {
    const dist_autograd::Context context;
    const at::Tensor loss = linear.forward(input).pow(2).mean();
    dist_autograd::backward(context.id(), {loss});
    optimizer.step(context.id());
    (step == 0 ? before : after) = loss.item<double>();
  }
  std::cout << "DistributedOptimizer: the loss " << (after < before ? "falls" : "does not fall") << std::endl;
}

}  // namespace

int main() {
  try {
    const std::string rank = std::getenv("RANK") ? std::getenv("RANK") : "0";
    rpc::init_rpc("worker" + rank);
    if (rank == "0") {
      call();
      differentiate();
      use_module();
    }
    rpc::shutdown();
  } catch (const std::exception& e) {
    std::cerr << "rpc_tour_torch: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
