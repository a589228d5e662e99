// What a worker knows of a context of distributed autograd: the tensors that it has sent and received under
// it, and their gradients.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>  // c10::Dict, whole
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace dlaunch::torch::internal {

class BackwardPass;

// LibTorch's kind of pointer to a node differs by its version.
using NodePointer = decltype(::torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

// A message with tensors: its sender, and a number that the sender has given to no other.
struct MessageId {
  int worker = -1;
  std::uint64_t number = 0;

  auto operator<=>(const MessageId&) const = default;
};

// The function behind the tensors that have arrived in one message: their gradients go to its sender.
class RecvRpcBackward : public ::torch::autograd::Node {
 public:
  explicit RecvRpcBackward(MessageId from) : from_(from) {}
  [[nodiscard]] MessageId from() const { return from_; }
  // The sender's devices of the tensors (tensor_head.h).
  [[nodiscard]] const std::vector<std::int16_t>& devices() const { return devices_; }
  void add_device(std::int16_t device) { devices_.push_back(device); }
  // Throws: LibTorch's own backward() cannot go on in another worker.
  ::torch::autograd::variable_list apply(::torch::autograd::variable_list&& gradients) override;
  [[nodiscard]] std::string name() const override { return "RecvRpcBackward"; }

 private:
  const MessageId from_;
  std::vector<std::int16_t> devices_;
};

// Of two gradients. A sparse one is added to a dense one, and not the other way round.
at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b);

// Any thread.
class AutogradContext {
 public:
  // Edges into this worker's graph for the tensors of one message that it has sent.
  using Edges = std::vector<::torch::autograd::Edge>;
  struct Graph {
    std::map<std::uint64_t, Edges> sent;  // by the message's number
    std::vector<NodePointer> received;    // each a RecvRpcBackward
  };

  explicit AutogradContext(std::uint64_t id) : id_(id) {}
  [[nodiscard]] std::uint64_t id() const { return id_; }

  // The tensor is part of the message. Returns its index there.
  std::uint32_t add_sent(std::uint64_t message, const at::Tensor& tensor);
  // The message was not sent, or has not arrived.
  void forget_sent(std::uint64_t message);
  // Makes the tensor the one with that index of the message; DistError if others are missing.
  // `device`: that of the tensor at its sender.
  void add_received(MessageId from, std::uint32_t index, std::int16_t device, at::Tensor& tensor);
  [[nodiscard]] Graph graph() const;

  // Workers that have called this one under the context, and that it has called.
  void meet(int worker);
  [[nodiscard]] std::set<int> met() const;

  void accumulate(const at::Tensor& variable, at::Tensor gradient);
  // Where its gradient is; undefined if there is none. The reference stays valid.
  [[nodiscard]] at::Tensor& gradient_of(const at::Tensor& variable);
  [[nodiscard]] c10::Dict<at::Tensor, at::Tensor> gradients() const;

  // A backward pass under this context: made by the first call.
  [[nodiscard]] std::shared_ptr<BackwardPass> pass(std::uint64_t number);
  [[nodiscard]] std::vector<std::shared_ptr<BackwardPass>> passes() const;

 private:
  struct Gradient {
    at::Tensor variable;
    at::Tensor gradient;
  };

  const std::uint64_t id_;
  mutable std::mutex mutex_;
  // protected by mutex_
  Graph graph_;
  std::map<MessageId, NodePointer> received_;
  std::set<int> met_;
  std::unordered_map<const at::TensorImpl*, Gradient> gradients_;
  std::map<std::uint64_t, std::shared_ptr<BackwardPass>> passes_;
};

// The contexts that this process knows. Any thread.
class AutogradContexts {
 public:
  static AutogradContexts& get();

  // A new one, of this worker.
  std::shared_ptr<AutogradContext> create(int worker);
  // Null: none that this worker knows.
  [[nodiscard]] std::shared_ptr<AutogradContext> find(std::uint64_t id) const;
  // Null: it has ended.
  std::shared_ptr<AutogradContext> find_or_add(std::uint64_t id);
  // Null: none that this worker knows. It is unknown from now on.
  std::shared_ptr<AutogradContext> end(std::uint64_t id);

  std::uint64_t new_number() { return ++last_number_; }
  // Such a number of this worker, which no other worker makes.
  static std::uint64_t of_worker(int worker, std::uint64_t number);

 private:
  AutogradContexts();
  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> last_number_ = 0;
  // protected by mutex_
  std::uint64_t last_id_;
  std::unordered_map<std::uint64_t, std::shared_ptr<AutogradContext>> contexts_;
  // Calls under a context may arrive after its end: the latest that have ended.
  std::unordered_set<std::uint64_t> ended_;
  std::deque<std::uint64_t> ended_in_order_;
};

}  // namespace dlaunch::torch::internal
