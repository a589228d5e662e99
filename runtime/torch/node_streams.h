// The streams in which autograd's nodes run on CUDA devices: those of their forward, as in LibTorch's engine.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

namespace dlaunch::torch::internal {

// Of the node's gradients; none on the CPU.
std::vector<c10::Stream> streams_of(::torch::autograd::Node& node);

// What a node computes while it lives is in its streams.
class NodeStreams {
 public:
  explicit NodeStreams(::torch::autograd::Node& node) : guard_(streams_of(node)) {}

 private:
  const c10::MultiStreamGuard guard_;
};

// The gradient is computed in a current stream of this thread: the node that the edge leads to begins after
// that.
void hand_over(const at::Tensor& gradient, const ::torch::autograd::Edge& edge);

}  // namespace dlaunch::torch::internal
