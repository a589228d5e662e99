#include "runtime/torch/autograd_context.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <random>

#include "dlaunch/error.h"
#include "runtime/torch/backward_pass.h"

namespace dlaunch::torch::internal {

namespace {

// The upper bits of an id are those of the worker that has made it. The others count from a random number, so
// that a worker that was restarted does not repeat the ids of the one before. So do the numbers of messages.
constexpr int count_bits = 43;
constexpr std::uint64_t count_mask = (std::uint64_t{1} << count_bits) - 1;
constexpr std::size_t most_ended = 4096;

template <class Pointer>
Pointer new_receiver(MessageId from) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<::torch::autograd::Node>>) {
    return std::make_shared<RecvRpcBackward>(from);
  } else {
    return c10::make_intrusive<RecvRpcBackward>(from);
  }
}

// Nobody else has its memory: it may be changed, as by DistributedDataParallel.
at::Tensor owned(at::Tensor gradient) {
  const bool is_own = gradient.layout() != at::kStrided ||
                      (gradient.use_count() == 1 && gradient.is_non_overlapping_and_dense() &&
                       gradient.storage().use_count() == 1);
  return is_own ? std::move(gradient) : gradient.clone();
}

}  // namespace

::torch::autograd::variable_list RecvRpcBackward::apply(::torch::autograd::variable_list&& /*gradients*/) {
  throw DistError("the graph goes on in worker " + std::to_string(from_.worker) +
                      ": use dist_autograd::backward() instead of LibTorch's backward()",
                  {.operation = "backward"});
}

at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  return a.is_sparse() && !b.is_sparse() ? b + a : a + b;
}

std::uint32_t AutogradContext::add_sent(std::uint64_t message, const at::Tensor& tensor) {
  ::torch::autograd::Edge edge = ::torch::autograd::impl::gradient_edge(tensor);
  const std::lock_guard lock(mutex_);
  Edges& edges = graph_.sent[message];
  edges.push_back(std::move(edge));
  return static_cast<std::uint32_t>(edges.size() - 1);
}

void AutogradContext::forget_sent(std::uint64_t message) {
  const std::lock_guard lock(mutex_);
  graph_.sent.erase(message);
}

void AutogradContext::add_received(MessageId from, std::uint32_t index, std::int16_t device,
                                   at::Tensor& tensor) {
  if (!tensor.is_floating_point() && !tensor.is_complex())
    throw DistError("a tensor that has arrived requires a gradient, and has integers");
  const std::lock_guard lock(mutex_);
  NodePointer& node = received_[from];
  if (!node) {
    node = new_receiver<NodePointer>(from);
    graph_.received.push_back(node);
  }
  if (node->num_inputs() != index)
    throw DistError("the tensors of a message do not arrive in the order in which they were sent");
  static_cast<RecvRpcBackward&>(*node).add_device(device);
  ::torch::autograd::set_history(tensor, node);
}

AutogradContext::Graph AutogradContext::graph() const {
  const std::lock_guard lock(mutex_);
  return graph_;
}

void AutogradContext::meet(int worker) {
  const std::lock_guard lock(mutex_);
  met_.insert(worker);
}

std::set<int> AutogradContext::met() const {
  const std::lock_guard lock(mutex_);
  return met_;
}

void AutogradContext::accumulate(const at::Tensor& variable, at::Tensor gradient) {
  const std::lock_guard lock(mutex_);
  Gradient& place = gradients_[variable.unsafeGetTensorImpl()];
  place.variable = variable;
  place.gradient = place.gradient.defined() ? sum_of(place.gradient, gradient) : owned(std::move(gradient));
}

at::Tensor& AutogradContext::gradient_of(const at::Tensor& variable) {
  const std::lock_guard lock(mutex_);
  Gradient& place = gradients_[variable.unsafeGetTensorImpl()];
  place.variable = variable;
  return place.gradient;
}

c10::Dict<at::Tensor, at::Tensor> AutogradContext::gradients() const {
  c10::Dict<at::Tensor, at::Tensor> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [impl, place] : gradients_)
    if (place.gradient.defined()) all.insert(place.variable, place.gradient);
  return all;
}

std::shared_ptr<BackwardPass> AutogradContext::pass(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<BackwardPass>& pass = passes_[number];
  if (!pass) pass = std::make_shared<BackwardPass>(number);
  return pass;
}

std::vector<std::shared_ptr<BackwardPass>> AutogradContext::passes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<BackwardPass>> all;
  for (const auto& [number, pass] : passes_) all.push_back(pass);
  return all;
}

// --- All contexts

// Never destroyed: calls may arrive until the process has ended.
AutogradContexts& AutogradContexts::get() {
  static AutogradContexts& only = *new AutogradContexts;
  return only;
}

AutogradContexts::AutogradContexts() {
  std::random_device random;
  last_id_ = ((std::uint64_t{random()} << 32U) | random()) & count_mask;
  last_number_ = random();
}

std::uint64_t AutogradContexts::of_worker(int worker, std::uint64_t number) {
  return (static_cast<std::uint64_t>(worker) << count_bits) | number;
}

std::shared_ptr<AutogradContext> AutogradContexts::create(int worker) {
  const std::lock_guard lock(mutex_);
  last_id_ = std::max<std::uint64_t>((last_id_ + 1) & count_mask, 1);
  auto made = std::make_shared<AutogradContext>(of_worker(worker, last_id_));
  contexts_.emplace(made->id(), made);
  return made;
}

std::shared_ptr<AutogradContext> AutogradContexts::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto at = contexts_.find(id);
  return at == contexts_.end() ? nullptr : at->second;
}

std::shared_ptr<AutogradContext> AutogradContexts::find_or_add(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (ended_.contains(id)) return nullptr;
  std::shared_ptr<AutogradContext>& context = contexts_[id];
  if (!context) context = std::make_shared<AutogradContext>(id);
  return context;
}

std::shared_ptr<AutogradContext> AutogradContexts::end(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (ended_.insert(id).second) {
    ended_in_order_.push_back(id);
    if (ended_in_order_.size() > most_ended) {
      ended_.erase(ended_in_order_.front());
      ended_in_order_.pop_front();
    }
  }
  const auto at = contexts_.find(id);
  if (at == contexts_.end()) return nullptr;
  std::shared_ptr<AutogradContext> context = std::move(at->second);
  contexts_.erase(at);
  return context;
}

}  // namespace dlaunch::torch::internal
