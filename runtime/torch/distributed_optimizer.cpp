#include "dlaunch/torch/distributed_optimizer.h"

#include <ATen/ATen.h>
#include <torch/serialize/archive.h>

#include <exception>
#include <mutex>
#include <sstream>

#include "dlaunch/error.h"

namespace dlaunch::torch {
inline namespace v1 {
namespace rpc_detail {

namespace {

const rpc::Registration step_registration("DistributedOptimizer.step", &LocalOptimizer::step);

// The gradients of a context in the place where an optimizer looks for them.
class GradientsInPlace {
 public:
  GradientsInPlace(const ::torch::optim::Optimizer& optimizer,
                   const c10::Dict<at::Tensor, at::Tensor>& gradients) {
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const auto found = gradients.find(parameter);
        before_.emplace_back(parameter, parameter.grad());
        parameter.mutable_grad() = found == gradients.end() ? at::Tensor() : found->value();
      }
    }
  }
  ~GradientsInPlace() {
    for (auto& [parameter, gradient] : before_) parameter.mutable_grad() = std::move(gradient);
  }
  GradientsInPlace(const GradientsInPlace&) = delete;
  GradientsInPlace& operator=(const GradientsInPlace&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
};

}  // namespace

LocalOptimizer::LocalOptimizer(std::unique_ptr<::torch::optim::Optimizer> optimizer)
    : optimizer_(std::move(optimizer)) {}

void LocalOptimizer::step(std::int64_t context_id) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const GradientsInPlace gradients(*optimizer_, dist_autograd::get_gradients(context_id));
  optimizer_->step();
}

std::vector<at::Tensor> tensors_of(const std::vector<rpc::RRef<at::Tensor>>& references) {
  std::vector<at::Tensor> tensors;
  for (const rpc::RRef<at::Tensor>& reference : references) tensors.push_back(reference.local_value());
  return tensors;
}

std::string bytes_of_options(const ::torch::optim::OptimizerOptions& options) {
  ::torch::serialize::OutputArchive archive;
  options.serialize(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void read_options(const std::string& bytes, ::torch::optim::OptimizerOptions& options) {
  std::istringstream stream(bytes);
  ::torch::serialize::InputArchive archive;
  archive.load_from(stream);
  options.serialize(archive);
}

std::map<int, std::vector<rpc::RRef<at::Tensor>>> by_owner(
    const std::vector<rpc::RRef<at::Tensor>>& parameters) {
  if (parameters.empty()) throw DistError("there are no parameters", {.operation = "DistributedOptimizer"});
  std::map<int, std::vector<rpc::RRef<at::Tensor>>> owners;
  for (const rpc::RRef<at::Tensor>& parameter : parameters) owners[parameter.owner().id].push_back(parameter);
  return owners;
}

void step_all(const std::vector<rpc::RRef<LocalOptimizer>>& optimizers, std::int64_t context_id) {
  (void)dist_autograd::get_gradients(context_id);  // an unknown context is this worker's error
  // An owner to which no call has come under the context gets to know it, and has no gradients.
  const rpc::rpc_detail::CallContextScope under(static_cast<std::uint64_t>(context_id));
  std::vector<Future<void>> steps;
  for (const rpc::RRef<LocalOptimizer>& optimizer : optimizers)
    steps.push_back(optimizer.rpc_async(&LocalOptimizer::step, context_id));
  std::exception_ptr first;
  for (const Future<void>& step : steps) {
    try {
      step.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace rpc_detail
}  // namespace v1
}  // namespace dlaunch::torch
