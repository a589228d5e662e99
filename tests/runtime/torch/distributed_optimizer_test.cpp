// An optimizer of parameters that live in several workers.

#include "dlaunch/torch/distributed_optimizer.h"

#include <torch/torch.h>

#include <string>
#include <vector>

#include "tests/runtime/torch/rpc_workers.h"

namespace dlaunch::test {
namespace {

namespace dist_autograd = dlaunch::torch::dist_autograd;
using torch::DistributedOptimizer;
using torch::RemoteModule;
using Linear = ::torch::nn::Linear;

template <class T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Two layers in other workers and one here, against the same three in one process.
template <class Optimizer, class Options>
std::string trains_as_one_process(const Options& options) {
  const RemoteModule<Linear> first("worker1", 4, 5);
  const RemoteModule<Linear> second("worker2", 5, 3);
  Linear last(3, 2);
  std::vector<rpc::RRef<at::Tensor>> parameters = first.remote_parameters();
  append(parameters, second.remote_parameters());
  for (const at::Tensor& own : last->parameters()) parameters.emplace_back(own);
  std::vector<at::Tensor> copies;
  for (const auto& parameter : parameters)
    copies.push_back(parameter.to_here().detach().clone().set_requires_grad(true));
  const DistributedOptimizer<Optimizer> optimizer(parameters, options);
  Optimizer local(copies, options);
  for (int step = 0; step < 5; ++step) {
    const at::Tensor input = ::torch::randn({8, 4});
    const dist_autograd::Context context;
    const at::Tensor loss = last->forward(second.forward(::torch::tanh(first.forward(input)))).pow(2).mean();
    dist_autograd::backward(context.id(), {loss});
    optimizer.step(context.id());
    const auto layer = [&](const at::Tensor& value, std::size_t at) {
      return ::torch::linear(value, copies[at], copies[at + 1]);
    };
    local.zero_grad();
    layer(layer(::torch::tanh(layer(input, 0)), 2), 4).pow(2).mean().backward();
    local.step();
  }
  for (std::size_t i = 0; i < copies.size(); ++i)
    if (!parameters[i].to_here().allclose(copies[i], 1e-5, 1e-6))
      return "parameter " + std::to_string(i) + " differs";
  return "ok";
}

TEST(DistributedOptimizer, TrainsAsOneProcess) {
  expect_ok(3, [] {
    return trains_as_one_process<::torch::optim::SGD>(::torch::optim::SGDOptions(0.1).momentum(0.9));
  });
}
TEST(DistributedOptimizer, AlsoWithAdam) {
  expect_ok(3, [] { return trains_as_one_process<::torch::optim::Adam>(::torch::optim::AdamOptions(0.01)); });
}

TEST(DistributedOptimizer, AnOwnerThatTakesNoPartStaysAsItIs) {
  expect_ok(3, []() -> std::string {
    const RemoteModule<Linear> used("worker1", 2, 2);
    const RemoteModule<Linear> unused("worker2", 2, 2);
    std::vector<rpc::RRef<at::Tensor>> parameters = used.remote_parameters();
    append(parameters, unused.remote_parameters());
    const DistributedOptimizer<::torch::optim::SGD> optimizer(parameters, ::torch::optim::SGDOptions(0.1));
    const at::Tensor before = parameters[0].to_here().clone();
    const at::Tensor other = parameters[2].to_here().clone();
    const dist_autograd::Context context;
    dist_autograd::backward(context.id(), {used.forward(::torch::ones({1, 2})).sum()});
    optimizer.step(context.id());
    REQUIRE(parameters[0].to_here().allclose(before - 0.1));
    REQUIRE(parameters[2].to_here().equal(other));
    return "ok";
  });
}

TEST(DistributedOptimizer, Errors) {
  expect_ok(2, []() -> std::string {
    using Sgd = DistributedOptimizer<::torch::optim::SGD>;
    REQUIRE_HAS(error_of([] { const Sgd none({}, ::torch::optim::SGDOptions(0.1)); }),
                "there are no parameters");
    const RemoteModule<Linear> linear("worker1", 2, 2);
    const Sgd optimizer(linear.remote_parameters(), ::torch::optim::SGDOptions(0.1));
    REQUIRE_HAS(error_of([&] { optimizer.step(5); }), "worker worker0 does not know context 5");
    // What the optimizer rejects comes with the first step.
    const dist_autograd::Context context;
    const Sgd wrong(linear.remote_parameters(), ::torch::optim::SGDOptions(-1));
    REQUIRE_HAS(error_of([&] { wrong.step(context.id()); }), "Invalid learning rate: -1");
    return "ok";
  });
}

}  // namespace
}  // namespace dlaunch::test
