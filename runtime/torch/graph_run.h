// Runs the part of autograd's graph that is in this worker, as gradients come from other workers.
//
// A node runs when the gradients of all its results are there: those of the roots, and those of the tensors
// that this worker has sent, each of which gets one, if only an undefined one (FAST mode of PyTorch's
// distributed autograd). LibTorch's engine cannot wait for gradients without holding a thread, and adds to
// .grad; here the leaves' gradients are added to the context.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/torch/autograd_context.h"
#include "runtime/torch/rpc_devices.h"

namespace dlaunch::torch::internal {

// Any thread; nodes run on one at a time.
class GraphRun {
 public:
  using Gradients = std::vector<at::Tensor>;  // undefined: zero
  // Of the tensors of a message, to its sender.
  using Send = std::function<void(MessageId to, std::vector<DirectedTensor> gradients)>;

  GraphRun(std::shared_ptr<AutogradContext> context, bool keep_graph, Send send);

  // Takes what the context has recorded until now. What was received and is not reached gets its undefined
  // gradients now.
  void begin(const AutogradContext::Edges& roots, const Gradients& gradients);
  // For the tensors of a message that this worker has sent; nothing if it has not, or has them already.
  void deliver(std::uint64_t message, const Gradients& gradients);
  // No more will come.
  void deliver_rest();
  enum class State : std::uint8_t {
    complete,  // nothing is left; returned once
    waiting,   // for gradients
    other,     // another thread runs it, or it has ended before
  };
  // Runs what can run. Throws what a node throws.
  State run();
  // Nothing runs any more but the node that does.
  void stop();

 private:
  using Node = ::torch::autograd::Node;
  using Edge = ::torch::autograd::Edge;

  void count(const AutogradContext::Edges& edges);
  void add(const Edge& edge, at::Tensor gradient);
  void add_all(const AutogradContext::Edges& edges, const Gradients& gradients);
  void send(const RecvRpcBackward& receiver, Gradients gradients) const;
  void finish_leaves() const;
  [[nodiscard]] Gradients run_node(Node& node, Gradients gradients) const;
  void accumulate(Node& node, Gradients gradients) const;

  const std::shared_ptr<AutogradContext> context_;
  const bool keep_graph_;
  const Send send_;

  std::mutex mutex_;
  // protected by mutex_
  AutogradContext::Graph graph_;  // keeps the nodes
  AutogradContext::Edges roots_;
  std::set<std::uint64_t> waiting_;                 // for the gradients of these messages
  std::unordered_map<Node*, std::size_t> missing_;  // gradients of reached nodes
  std::unordered_map<Node*, Gradients> inputs_;
  std::priority_queue<std::pair<std::uint64_t, Node*>> ready_;  // the latest first, as in LibTorch's engine
  bool running_ = false;
  bool ended_ = false;
};

}  // namespace dlaunch::torch::internal
