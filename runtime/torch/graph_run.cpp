#include "runtime/torch/graph_run.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <string>

#include "dlaunch/error.h"
#include "runtime/torch/node_streams.h"

namespace dlaunch::torch::internal {

namespace {

using ::torch::autograd::AccumulateGrad;
using ::torch::autograd::Edge;
using ::torch::autograd::Node;
using Gradients = GraphRun::Gradients;

// Functions whose arguments were broadcast leave it to the engine to add up; and to convert.
at::Tensor fitted(const Edge& edge, at::Tensor gradient) {
  const auto& wanted = edge.function->input_metadata(edge.input_nr);
  if (!wanted.is_same_shape(gradient)) {
    if (!wanted.is_expandable_to_shape(gradient)) {
      throw DistError("a gradient of shape " + c10::str(gradient.sizes()) + " does not fit result " +
                      std::to_string(edge.input_nr) + " of " + edge.function->name());
    }
    gradient = wanted.reduce_grad(gradient);
  }
  const at::ScalarType type = c10::typeMetaToScalarType(wanted.options().dtype());
  if (gradient.scalar_type() == type) return gradient;
  if (gradient.is_complex() && !c10::isComplexType(type)) gradient = at::real(gradient);
  return gradient.to(type);
}

template <class Hooks>
void run_hooks(const Hooks& hooks, Gradients& gradients) {
  for (const auto& hook : hooks) gradients = (*hook)(gradients);
}

// Newer versions keep the hooks of tensors apart from those of nodes.
template <class AnyNode>
void run_pre_hooks(AnyNode& node, Gradients& gradients) {
  if constexpr (requires { node.tensor_pre_hooks(); }) run_hooks(node.tensor_pre_hooks(), gradients);
  run_hooks(node.pre_hooks(), gradients);
  if constexpr (requires { node.retains_grad_hooks(); }) {
    for (const auto& [index, hook] : node.retains_grad_hooks()) gradients = (*hook)(gradients);
  }
}

Gradients run_post_hooks(Node& node, Gradients outputs, const Gradients& inputs) {
  for (const auto& hook : node.post_hooks()) outputs = (*hook)(outputs, inputs);
  return outputs;
}

bool none_defined(const Gradients& gradients) {
  return std::ranges::none_of(gradients, [](const at::Tensor& one) { return one.defined(); });
}

}  // namespace

GraphRun::GraphRun(std::shared_ptr<AutogradContext> context, bool keep_graph, Send send)
    : context_(std::move(context)), keep_graph_(keep_graph), send_(std::move(send)) {}

void GraphRun::begin(const AutogradContext::Edges& roots, const Gradients& gradients) {
  const std::lock_guard lock(mutex_);
  graph_ = context_->graph();
  roots_ = roots;
  count(roots_);
  for (const auto& [message, edges] : graph_.sent) {
    waiting_.insert(message);
    count(edges);
  }
  for (const NodePointer& node : graph_.received)
    if (!missing_.contains(node.get()))
      send(static_cast<const RecvRpcBackward&>(*node), Gradients(node->num_inputs()));
  add_all(roots_, gradients);
}

void GraphRun::count(const AutogradContext::Edges& edges) {
  std::vector<Node*> open;
  const auto visit = [&](const Edge& edge) {
    Node* const node = edge.function.get();
    if (node != nullptr && ++missing_[node] == 1) open.push_back(node);
  };
  for (const Edge& edge : edges) visit(edge);
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    for (const Edge& edge : node->next_edges()) visit(edge);
  }
}

void GraphRun::add(const Edge& edge, at::Tensor gradient) {
  Node* const node = edge.function.get();
  if (node == nullptr) return;
  Gradients& inputs = inputs_[node];
  inputs.resize(node->num_inputs());
  if (gradient.defined()) {
    at::Tensor& place = inputs[edge.input_nr];
    gradient = fitted(edge, std::move(gradient));
    hand_over(gradient, edge);
    const NodeStreams streams(*node);
    place = place.defined() ? sum_of(place, gradient) : std::move(gradient);
  }
  if (--missing_[node] == 0) ready_.emplace(node->sequence_nr(), node);
}

void GraphRun::add_all(const AutogradContext::Edges& edges, const Gradients& gradients) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < edges.size(); ++i) add(edges[i], gradients[i]);
}

void GraphRun::deliver(std::uint64_t message, const Gradients& gradients) {
  const std::lock_guard lock(mutex_);
  if (waiting_.erase(message) == 0) return;
  const AutogradContext::Edges& edges = graph_.sent.at(message);
  if (gradients.size() != edges.size()) {
    throw DistError(std::to_string(gradients.size()) + " gradients have arrived for a message of " +
                    std::to_string(edges.size()) + " tensors");
  }
  add_all(edges, gradients);
}

void GraphRun::deliver_rest() {
  const std::lock_guard lock(mutex_);
  for (const std::uint64_t message : std::exchange(waiting_, {})) {
    const AutogradContext::Edges& edges = graph_.sent.at(message);
    add_all(edges, Gradients(edges.size()));
  }
}

void GraphRun::send(const RecvRpcBackward& receiver, Gradients gradients) const {
  std::vector<DirectedTensor> directed;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    directed.push_back({std::move(gradients[i]), receiver.devices().at(i)});
  send_(receiver.from(), std::move(directed));
}

GraphRun::State GraphRun::run() {
  std::unique_lock lock(mutex_);
  if (running_ || ended_) return State::other;
  running_ = true;
  while (!ended_ && !ready_.empty()) {
    Node* const node = ready_.top().second;
    ready_.pop();
    Gradients gradients = std::move(inputs_.extract(node).mapped());
    const NodeStreams streams(*node);
    lock.unlock();
    const Gradients outputs = run_node(*node, std::move(gradients));
    lock.lock();
    const AutogradContext::Edges& edges = node->next_edges();
    if (outputs.size() < edges.size()) {
      throw DistError(node->name() + " has returned " + std::to_string(outputs.size()) + " gradients for " +
                      std::to_string(edges.size()) + " arguments");
    }
    add_all(edges, outputs);
  }
  running_ = false;
  if (ended_) return State::other;
  if (!waiting_.empty()) return State::waiting;
  ended_ = true;
  finish_leaves();
  return State::complete;
}

// The gradients are there for any thread, in whatever stream it works.
void GraphRun::finish_leaves() const {
  for (const auto& [node, missing] : missing_) {
    if (dynamic_cast<const AccumulateGrad*>(node) == nullptr) continue;
    for (const c10::Stream& stream : streams_of(*node)) stream.synchronize();
  }
}

void GraphRun::stop() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

Gradients GraphRun::run_node(Node& node, Gradients gradients) const {
  const at::NoGradGuard no_grad;
  const std::size_t arguments = node.next_edges().size();
  const auto* const receiver = dynamic_cast<const RecvRpcBackward*>(&node);
  if (receiver != nullptr) {
    if (!none_defined(gradients)) run_pre_hooks(node, gradients);
    send(*receiver, std::move(gradients));
    return Gradients(arguments);
  }
  // Zero in, zero out: parts of the graph that the roots do not reach may have been used and freed before.
  if (none_defined(gradients)) return Gradients(arguments);
  if (dynamic_cast<AccumulateGrad*>(&node) != nullptr) {
    accumulate(node, std::move(gradients));
    return Gradients(arguments);
  }
  run_pre_hooks(node, gradients);
  const Gradients inputs = node.post_hooks().empty() ? Gradients() : gradients;
  Gradients outputs = node(std::move(gradients));
  if (!keep_graph_) node.release_variables();
  return run_post_hooks(node, std::move(outputs), inputs);
}

void GraphRun::accumulate(Node& node, Gradients gradients) const {
  const at::Tensor& variable = dynamic_cast<AccumulateGrad&>(node).variable;
  const Gradients inputs = node.post_hooks().empty() ? Gradients() : gradients;
  run_hooks(::torch::autograd::impl::hooks(variable), gradients);
  run_hooks(node.pre_hooks(), gradients);
  context_->accumulate(variable, std::move(gradients.front()));
  run_post_hooks(node, {}, inputs);
}

}  // namespace dlaunch::torch::internal
