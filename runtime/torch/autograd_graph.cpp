#include "runtime/torch/autograd_graph.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <unordered_set>
#include <utility>

#include "runtime/torch/backward_pass.h"

namespace dlaunch::torch::internal {

namespace {

using ::torch::autograd::Node;
using ::torch::autograd::variable_list;

class Hook final : public ::torch::autograd::FunctionPostHook {
 public:
  Hook(std::function<void(std::size_t)> call, std::size_t parameter)
      : call_(std::move(call)), parameter_(parameter) {}

  variable_list operator()(const variable_list& outputs, const variable_list& /*inputs*/) override {
    call_(parameter_);
    return outputs;
  }

 private:
  const std::function<void(std::size_t)> call_;
  const std::size_t parameter_;
};

}  // namespace

GradientHooks::GradientHooks(const std::vector<at::Tensor>& parameters,
                             std::function<void(std::size_t)> call) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    NodePointer node = ::torch::autograd::impl::grad_accumulator(parameters[i]);
    const std::uintptr_t hook = node->add_post_hook(std::make_unique<Hook>(call, i));
    accumulators_.push_back({std::move(node), hook});
  }
}

GradientHooks::~GradientHooks() {
  for (const Accumulator& accumulator : accumulators_) accumulator.node->del_post_hook(accumulator.hook);
}

std::vector<std::size_t> GradientHooks::unreached_from(const std::vector<at::Tensor>& outputs) const {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> open;
  const auto visit = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad())
      visit(::torch::autograd::impl::gradient_edge(output).function.get());
  }
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    for (const ::torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  std::vector<std::size_t> unreached;
  for (std::size_t i = 0; i < accumulators_.size(); ++i)
    if (!seen.contains(accumulators_[i].node.get())) unreached.push_back(i);
  return unreached;
}

void at_end_of_backward(std::function<void()> call) {
  if (BackwardPass* const pass = running_pass()) return pass->at_end(std::move(call));
  ::torch::autograd::Engine::get_default_engine().queue_callback(std::move(call));
}

}  // namespace dlaunch::torch::internal
