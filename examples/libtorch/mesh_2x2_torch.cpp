// Two kinds of parallelism at once on a mesh of ranks: the model is divided along one dimension ("tp"), the
// batch along the other ("dp").
//
//   $ dlaunch --nproc-per-node=4 mesh_2x2_torch
//   $ dlaunch --nproc-per-node=1 mesh_2x2_torch    # the same training in one process
//
// Each rank has a part of the hidden units; the ranks of a line in "tp" add up what their parts contribute to
// the output. The ranks of a line in "dp" have the same part of the model, and DistributedDataParallel
// averages its gradients. One rank of each replica prints the loss and the gradients of the whole model.
#include <dlaunch/device_mesh.h>
#include <dlaunch/distributed.h>
#include <dlaunch/torch/data_parallel.h>
#include <dlaunch/torch/distributed.h>
#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t inputs = 4;
constexpr std::int64_t hidden = 6;  // of all parts
constexpr std::int64_t outputs = 3;
constexpr std::int64_t batch_size = 8;  // of all replicas
constexpr int steps = 3;

// The sum over the ranks that have the parts of one replica. (backward() of CPU tensors runs on the thread
// that calls it, so that it finds the current mesh, too.)
at::Tensor sum_over_parts(const at::Tensor& value) {
  at::Tensor sum = value.clone();
  dlaunch::torch::all_reduce(sum, dlaunch::ReduceOp::sum, {{}, dlaunch::get_current_mesh().get_group("tp")});
  return sum;
}

// One input for all parts: its gradient is the sum of theirs.
struct ForAllParts : torch::autograd::Function<ForAllParts> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& input) {
    return input.view_as(input);
  }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {sum_over_parts(gradients[0])};
  }
};

// The sum of what the parts compute: each part has the gradient of the sum.
struct OfAllParts : torch::autograd::Function<OfAllParts> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& part) {
    return sum_over_parts(part);
  }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0]};
  }
};

// Two layers behind an embedding. This rank has some of the hidden units: rows of the first layer, columns of
// the second one. What is before and behind them is whole on each rank.
struct NetImpl : torch::nn::Module {
  NetImpl(int part, int parts) {
    const auto part_of = [&](const at::Tensor& whole, std::int64_t dimension) {
      return whole.detach().chunk(parts, dimension)[static_cast<std::size_t>(part)].clone();
    };
    torch::manual_seed(1);
    embed = register_module("embed", torch::nn::Linear(inputs, inputs));
    const torch::nn::Linear whole_first(inputs, hidden);
    const torch::nn::Linear whole_second(hidden, outputs);
    first_weight = register_parameter("first_weight", part_of(whole_first->weight, 0));
    first_bias = register_parameter("first_bias", part_of(whole_first->bias, 0));
    second_weight = register_parameter("second_weight", part_of(whole_second->weight, 1));
    second_bias = register_parameter("second_bias", whole_second->bias.detach().clone());
  }
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor common = ForAllParts::apply(torch::tanh(embed(input)));
    const at::Tensor own = torch::tanh(torch::linear(common, first_weight, first_bias));
    return OfAllParts::apply(torch::linear(own, second_weight)) + second_bias;
  }
  torch::nn::Linear embed = nullptr;
  at::Tensor first_weight, first_bias, second_weight, second_bias;
};
TORCH_MODULE(Net);

// Lines of both replicas mix in the job's output.
void print(int replica, int step, const std::string& name, const at::Tensor& values) {
  std::string line = "replica " + std::to_string(replica) + " step " + std::to_string(step) + " " + name;
  const at::Tensor flat = values.reshape({-1});
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), " %.8f", flat[i].item<double>());
    line += text.data();
  }
  std::printf("%s\n", line.c_str());
}

// The gradient of the whole parameter, on each rank.
at::Tensor whole_gradient(const std::string& name, const at::Tensor& parameter,
                          const dlaunch::DeviceMesh& mesh) {
  if (name.starts_with("embed") || name == "second_bias") return parameter.grad();
  std::vector<at::Tensor> parts(static_cast<std::size_t>(mesh.size(1)));
  for (at::Tensor& part : parts) part = torch::empty_like(parameter);
  dlaunch::torch::all_gather(parts, parameter.grad(), {{}, mesh.get_group("tp")});
  return torch::cat(parts, name == "second_weight" ? 1 : 0);
}

void train(const dlaunch::DeviceMesh& mesh) {
  const dlaunch::MeshScope scope(mesh);
  const int replica = mesh.get_local_rank("dp");
  const Net net(mesh.get_local_rank("tp"), mesh.size(1));
  dlaunch::torch::DistributedDataParallel model(
      net, {.process_group = mesh.get_group("dp"), .first_bucket_bytes = 64});
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
  torch::manual_seed(2);
  const at::Tensor data = torch::randn({batch_size, inputs});
  const at::Tensor wanted = torch::randn({batch_size, outputs});
  for (int step = 1; step <= steps; ++step) {
    optimizer.zero_grad();
    const at::Tensor output = model(data.chunk(mesh.size(0))[static_cast<std::size_t>(replica)]);
    const at::Tensor own_loss =
        torch::mse_loss(output, wanted.chunk(mesh.size(0))[static_cast<std::size_t>(replica)]);
    own_loss.backward();
    at::Tensor loss = own_loss.detach().clone();
    dlaunch::torch::all_reduce(loss, dlaunch::ReduceOp::avg, {{}, mesh.get_group("dp")});
    const bool prints = mesh.get_local_rank("tp") == 0;
    if (prints) print(replica, step, "loss", loss);
    for (const auto& item : net->named_parameters()) {
      const at::Tensor gradient = whole_gradient(item.key(), item.value(), mesh);
      if (prints) print(replica, step, item.key(), gradient);
    }
    optimizer.step();
  }
}

}  // namespace

int main() {
  try {
    at::set_num_threads(1);
    dlaunch::init_process_group();
    const int parts = dlaunch::get_world_size() == 1 ? 1 : 2;
    train(dlaunch::init_device_mesh("cpu", {dlaunch::get_world_size() / parts, parts}, {"dp", "tp"}));
    dlaunch::destroy_process_group();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mesh_2x2_torch: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
