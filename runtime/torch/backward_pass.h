// A backward pass in one of the workers that take part in it.
//
// The pass spreads from the worker whose roots it has over all that have called each other under the context.
// Each begins it at those that it has met, and its own part has ended when its nodes have run, the gradients
// that it sends have arrived, and the parts that it has begun have ended. No thread waits for that.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "dlaunch/future.h"
#include "dlaunch/rpc.h"
#include "runtime/torch/autograd_context.h"
#include "runtime/torch/graph_run.h"

namespace dlaunch::torch::internal {

// Any thread.
class BackwardPass : public std::enable_shared_from_this<BackwardPass> {
 public:
  struct Settings {
    bool keep_graph = false;
    rpc::Destination::Timeout timeout;  // of each call to another worker; none: that of init_rpc
  };

  explicit BackwardPass(std::uint64_t number) : number_(number) {}
  [[nodiscard]] std::uint64_t number() const { return number_; }

  // With roots: it spreads from here. The future is that of the end.
  Future<void> begin(const std::shared_ptr<AutogradContext>& context, const Settings& settings,
                     const AutogradContext::Edges& roots, const GraphRun::Gradients& gradients);
  // Begun by another worker. Done at once if that was not the first.
  Future<void> join(const std::shared_ptr<AutogradContext>& context, const Settings& settings, int caller);
  // May come before the pass begins here.
  void deliver(std::uint64_t message, GraphRun::Gradients gradients);
  // Ends it with this error, here and at the workers that take part; nothing if it has ended.
  void fail(const std::exception_ptr& error);

  // As Engine::queue_callback.
  void at_end(std::function<void()> call);
  // Of a pass with roots: what at_end() has taken, when the pass has ended. A pass without runs it by itself.
  void run_end_calls();

  [[nodiscard]] at::Tensor& gradient_of(const at::Tensor& parameter);

 private:
  Future<void> start(const std::shared_ptr<AutogradContext>& context, const Settings& settings,
                     std::optional<int> caller, const AutogradContext::Edges& roots,
                     const GraphRun::Gradients& gradients);
  void run_graph(const std::shared_ptr<AutogradContext>& context, const AutogradContext::Edges& roots,
                 const GraphRun::Gradients& gradients);
  void send(MessageId to, const std::vector<DirectedTensor>& gradients);
  void work(const std::shared_ptr<GraphRun>& run);
  [[nodiscard]] bool is_last();  // all parts but the run here have ended
  void on_part(const Future<void>& part);
  void end_part();

  const std::uint64_t number_;
  std::mutex mutex_;
  const Promise<void> promise_;
  // protected by mutex_
  bool has_begun_ = false;
  bool has_ended_ = false;
  std::vector<std::pair<std::uint64_t, GraphRun::Gradients>> early_;  // before it has begun
  std::vector<std::function<void()>> end_calls_;
  // from the beginning to the end
  std::shared_ptr<AutogradContext> context_;
  std::shared_ptr<GraphRun> run_;
  Settings settings_;
  bool has_roots_ = false;
  std::size_t open_ = 0;  // parts: the run, other workers, gradients that are sent
};

// The pass whose nodes this thread runs; null: none.
BackwardPass* running_pass();

// Of the pass that runs on this thread, or .grad. The reference is valid as long as the pass's context, or
// the parameter.
at::Tensor& gradient_place(const at::Tensor& parameter);

// Ends the context here and at the workers that it has met.
void end_context(std::uint64_t id);

}  // namespace dlaunch::torch::internal
