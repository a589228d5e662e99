#include "runtime/torch/backward_pass.h"

#include <chrono>
#include <string>

#include "dlaunch/error.h"
#include "dlaunch/rpc_context.h"
#include "dlaunch/torch/rpc_tensors.h"

namespace dlaunch::torch::internal {

namespace {

using rpc::rpc_detail::CallContextScope;
using Timeout = rpc::Destination::Timeout;
using Milliseconds = std::optional<std::int64_t>;

thread_local BackwardPass* running = nullptr;

class RunningScope {
 public:
  explicit RunningScope(BackwardPass* pass) : before_(std::exchange(running, pass)) {}
  ~RunningScope() { running = before_; }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  BackwardPass* const before_;
};

Milliseconds count_of(Timeout timeout) { return timeout ? Milliseconds(timeout->count()) : std::nullopt; }

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

// --- What the workers call at each other

std::shared_ptr<AutogradContext> context_here(std::uint64_t id) {
  auto context = AutogradContexts::get().find_or_add(id);
  if (!context)
    throw DistError("context " + std::to_string(id) + " of distributed autograd has ended in worker " +
                    rpc::get_worker_info().name);
  return context;
}

Future<void> join_backward(std::uint64_t context, std::uint64_t pass, bool keep_graph, Milliseconds timeout,
                           int caller) {
  const auto here = context_here(context);
  const BackwardPass::Settings settings{
      keep_graph, timeout ? Timeout(std::chrono::milliseconds(*timeout)) : std::nullopt};
  return here->pass(pass)->join(here, settings, caller);
}
const rpc::Registration join_registration("dist_autograd.backward", join_backward);

void take_gradients(std::uint64_t context, std::uint64_t pass, std::uint64_t message,
                    const std::vector<DirectedTensor>& directed) {
  GraphRun::Gradients gradients;
  for (const DirectedTensor& one : directed) gradients.push_back(one.tensor);
  if (const auto here = AutogradContexts::get().find_or_add(context))
    here->pass(pass)->deliver(message, std::move(gradients));
}
const rpc::Registration take_registration("dist_autograd.gradients", take_gradients);

void abandon_backward(std::uint64_t context, std::uint64_t pass, const std::string& why) {
  if (const auto here = AutogradContexts::get().find(context))
    here->pass(pass)->fail(std::make_exception_ptr(DistError(why)));
}
const rpc::Registration abandon_registration("dist_autograd.abandon", abandon_backward);

void end_context_here(std::uint64_t id) { end_context(id); }
const rpc::Registration end_registration("dist_autograd.end_context", end_context_here);

std::set<int> others(const AutogradContext& context) {
  std::set<int> workers = context.met();
  workers.erase(rpc::get_worker_info().id);
  return workers;
}

// Workers that a worker has met which has died may not be reached otherwise.
void end_context_everywhere(std::uint64_t id, const std::set<int>& but) {
  for (const rpc::WorkerInfo& worker : rpc::get_worker_infos())
    if (worker != rpc::get_worker_info() && !but.contains(worker.id))
      rpc::rpc_async(worker, end_context_here, id);
}

}  // namespace

BackwardPass* running_pass() { return running; }

at::Tensor& gradient_place(const at::Tensor& parameter) {
  return running != nullptr ? running->gradient_of(parameter) : parameter.mutable_grad();
}

void end_context(std::uint64_t id) {
  const std::shared_ptr<AutogradContext> context = AutogradContexts::get().end(id);
  if (!context) return;
  const CallContextScope none(0);
  for (const auto& pass : context->passes())
    pass->fail(std::make_exception_ptr(DistError("the context of the backward pass has ended")));
  const auto lost = std::make_shared<std::once_flag>();
  const std::set<int> met = others(*context);
  for (const int worker : met) {
    rpc::rpc_async(worker, end_context_here, id).then([=](const Future<void>& done) {
      if (done.exception()) std::call_once(*lost, [&] { end_context_everywhere(id, met); });
    });
  }
}

// --- The pass

Future<void> BackwardPass::begin(const std::shared_ptr<AutogradContext>& context, const Settings& settings,
                                 const AutogradContext::Edges& roots, const GraphRun::Gradients& gradients) {
  return start(context, settings, std::nullopt, roots, gradients);
}

Future<void> BackwardPass::join(const std::shared_ptr<AutogradContext>& context, const Settings& settings,
                                int caller) {
  return start(context, settings, caller, {}, {});
}

Future<void> BackwardPass::start(const std::shared_ptr<AutogradContext>& context, const Settings& settings,
                                 std::optional<int> caller, const AutogradContext::Edges& roots,
                                 const GraphRun::Gradients& gradients) {
  const CallContextScope none(0);
  std::set<int> workers = others(*context);
  if (caller) workers.erase(*caller);
  {
    const std::lock_guard lock(mutex_);
    if (has_begun_ && !has_ended_) {
      const Promise<void> known;
      known.set_value();
      return known.future();
    }
    if (has_begun_ || has_ended_) return promise_.future();
    has_begun_ = true;
    has_roots_ = !caller;
    context_ = context;
    settings_ = settings;
    open_ = 1 + workers.size();
  }
  try {
    for (const int worker : workers) {
      rpc::rpc_async({worker, settings.timeout}, join_backward, context->id(), number_, settings.keep_graph,
                     count_of(settings.timeout), rpc::get_worker_info().id)
          .then([self = shared_from_this()](const Future<void>& part) { self->on_part(part); });
    }
    run_graph(context, roots, gradients);
  } catch (...) {
    fail(std::current_exception());
  }
  return promise_.future();
}

void BackwardPass::run_graph(const std::shared_ptr<AutogradContext>& context,
                             const AutogradContext::Edges& roots, const GraphRun::Gradients& gradients) {
  const auto run = std::make_shared<GraphRun>(
      context, settings_.keep_graph,
      [weak = weak_from_this()](MessageId to, const std::vector<DirectedTensor>& of) {
        if (const auto self = weak.lock()) self->send(to, of);
      });
  run->begin(roots, gradients);
  std::vector<std::pair<std::uint64_t, GraphRun::Gradients>> early;
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    run_ = run;
    early = std::exchange(early_, {});
  }
  for (const auto& [message, of] : early) run->deliver(message, of);
  work(run);
}

void BackwardPass::send(MessageId to, const std::vector<DirectedTensor>& gradients) {
  std::uint64_t context = 0;
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    ++open_;
    context = context_->id();
  }
  const CallContextScope none(0);
  rpc::rpc_async({to.worker, settings_.timeout}, take_gradients, context, number_, to.number, gradients)
      .then([self = shared_from_this()](const Future<void>& part) { self->on_part(part); });
}

void BackwardPass::deliver(std::uint64_t message, GraphRun::Gradients gradients) {
  std::shared_ptr<GraphRun> run;
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    run = run_;
    if (!run) {
      early_.emplace_back(message, std::move(gradients));
      return;
    }
  }
  try {
    run->deliver(message, gradients);
  } catch (...) {
    return fail(std::current_exception());
  }
  work(run);
}

void BackwardPass::work(const std::shared_ptr<GraphRun>& run) {
  try {
    const CallContextScope none(0);
    const RunningScope scope(this);
    GraphRun::State state = run->run();
    while (state == GraphRun::State::waiting && is_last()) {
      // All others have ended: what has not come was sent in a message that has not arrived.
      run->deliver_rest();
      state = run->run();
    }
    if (state == GraphRun::State::complete) end_part();
  } catch (...) {
    fail(std::current_exception());
  }
}

void BackwardPass::on_part(const Future<void>& part) {
  if (const std::exception_ptr error = part.exception()) return fail(error);
  end_part();
}

bool BackwardPass::is_last() {
  const std::lock_guard lock(mutex_);
  return has_roots_ && !has_ended_ && open_ == 1;
}

void BackwardPass::end_part() {
  std::shared_ptr<GraphRun> run;
  bool ends = false;
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    --open_;
    run = run_;
    if (open_ == 0) {
      has_ended_ = ends = true;
      run_ = nullptr;
    }
  }
  if (!ends) {
    if (run && is_last()) work(run);
    return;
  }
  if (has_roots_) return promise_.set_value();
  promise_.set_result_of([this] { run_end_calls(); });
}

void BackwardPass::fail(const std::exception_ptr& error) {
  std::shared_ptr<GraphRun> run;
  std::shared_ptr<AutogradContext> context;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_ended_, true)) return;
    run = std::exchange(run_, nullptr);
    context = std::exchange(context_, nullptr);
  }
  if (run) run->stop();
  promise_.set_exception(error);
  if (!context) return;
  try {
    const CallContextScope none(0);
    for (const int worker : others(*context))
      rpc::rpc_async(worker, abandon_backward, context->id(), number_, text_of(error));
  } catch (const DistError&) {  // NOLINT(bugprone-empty-catch): remote calls have ended, for the others too
  }
}

void BackwardPass::at_end(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  end_calls_.push_back(std::move(call));
}

void BackwardPass::run_end_calls() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls = std::exchange(end_calls_, {});
  }
  std::exception_ptr error;
  try {
    const RunningScope scope(this);
    for (const auto& call : calls) call();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
  }
  if (error) std::rethrow_exception(error);
}

at::Tensor& BackwardPass::gradient_of(const at::Tensor& parameter) {
  std::shared_ptr<AutogradContext> context;
  {
    const std::lock_guard lock(mutex_);
    context = context_;
  }
  if (!context) throw DistError("the backward pass has ended");
  return context->gradient_of(parameter);
}

}  // namespace dlaunch::torch::internal
