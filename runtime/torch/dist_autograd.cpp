#include "dlaunch/torch/dist_autograd.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/torch/autograd_context.h"
#include "runtime/torch/backward_pass.h"

namespace dlaunch::torch {
inline namespace v1 {
namespace dist_autograd {

namespace {

using internal::AutogradContext;
using internal::AutogradContexts;
using internal::BackwardPass;
using rpc::rpc_detail::CallContextScope;

void meet(std::uint64_t id, int worker) {
  if (const auto context = AutogradContexts::get().find_or_add(id)) context->meet(worker);
}
[[maybe_unused]] const bool meets = (rpc::rpc_detail::on_meeting_in_context(meet), true);

std::int64_t new_context() {
  return static_cast<std::int64_t>(AutogradContexts::get().create(rpc::get_worker_info().id)->id());
}

std::shared_ptr<AutogradContext> known(std::int64_t id, const char* operation) {
  auto context = AutogradContexts::get().find(static_cast<std::uint64_t>(id));
  if (!context) {
    throw DistError("worker " + rpc::get_worker_info().name + " does not know context " + std::to_string(id) +
                        " of distributed autograd: no call under it has reached this worker, or it has ended",
                    {.operation = operation});
  }
  return context;
}

void require_root(const at::Tensor& root, std::size_t number) {
  const auto reject = [&](const std::string& why) {
    throw DistError("root " + std::to_string(number) + " " + why, {.operation = "dist_autograd::backward"});
  };
  if (!root.defined()) reject("is undefined");
  if (root.numel() != 1) reject("has the shape " + c10::str(root.sizes()) + "; roots have one element");
  if (!root.requires_grad()) reject("requires no gradient: it does not depend on a tensor that does");
}

// Ends when all workers have their gradients.
struct Begun {
  std::shared_ptr<BackwardPass> pass;
  Future<void> end;
};
Begun begin(std::int64_t id, const std::vector<at::Tensor>& roots, const BackwardPass::Settings& settings) {
  const CallContextScope none(0);
  const auto context = known(id, "dist_autograd::backward");
  if (roots.empty()) throw DistError("there are no roots", {.operation = "dist_autograd::backward"});
  AutogradContext::Edges edges;
  internal::GraphRun::Gradients gradients;
  for (const at::Tensor& root : roots) {
    require_root(root, edges.size());
    edges.push_back(::torch::autograd::impl::gradient_edge(root));
    gradients.push_back(at::ones_like(root));
  }
  // No other pass of any worker has its number.
  const std::uint64_t number =
      AutogradContexts::of_worker(rpc::get_worker_info().id, AutogradContexts::get().new_number());
  auto pass = context->pass(number);
  Future<void> end = pass->begin(context, settings, edges, gradients);
  return {std::move(pass), std::move(end)};
}

// At the owner of the root.
Future<void> backward_at_owner(at::Tensor& root, std::int64_t id, bool retain_graph) {
  if (id != -1) {
    const Begun begun = begin(id, {root}, {retain_graph, {}});
    return begun.end.then([pass = begun.pass](const Future<void>& end) {
      end.wait();
      pass->run_end_calls();
    });
  }
  require_root(root, 0);
  root.backward({}, retain_graph);
  const Promise<void> done;
  done.set_value();
  return done.future();
}
const rpc::Registration backward_registration("RRef.backward", backward_at_owner);

}  // namespace

Context::Context() : id_(new_context()), scope_(static_cast<std::uint64_t>(id_)) {}

Context::~Context() {
  try {
    internal::end_context(static_cast<std::uint64_t>(id_));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): remote calls have ended
  }
}

void backward(std::int64_t context_id, const Tensors& roots, bool retain_graph,
              rpc::Destination::Timeout timeout) {
  const Begun begun = begin(context_id, roots.vec(), {retain_graph, timeout});
  begun.end.wait();
  begun.pass->run_end_calls();
}

void backward(const rpc::RRef<at::Tensor>& root, std::int64_t context_id, bool retain_graph) {
  const CallContextScope under(context_id == -1 ? 0 : static_cast<std::uint64_t>(context_id));
  root.rpc_sync(backward_at_owner, context_id, retain_graph);
}

c10::Dict<at::Tensor, at::Tensor> get_gradients(std::int64_t context_id) {
  return known(context_id, "dist_autograd::get_gradients")->gradients();
}

}  // namespace dist_autograd
}  // namespace v1
}  // namespace dlaunch::torch
