#include "runtime/torch/data_parallel_impl.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "dlaunch/torch/tensor.h"
#include "runtime/gradients/agreement.h"
#include "runtime/torch/backward_pass.h"

namespace dlaunch::torch::internal {

DataParallelImpl::DataParallelImpl(std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options)
    : module_(std::move(module)),
      options_(std::move(options)),
      group_(options_.process_group ? options_.process_group : default_group()),
      tensors_(tensors_of(*module_, options_.ignored)) {
  if (group_.rank() < 0) {
    throw DistError("this process is not a member of the group",
                    {.operation = "DistributedDataParallel", .group = group_.name()});
  }
  require_same_tensors(group_, tensors_, problem(), "DistributedDataParallel");
  std::vector<Parameter> parameters;
  for (const auto& [name, tensor] : tensors_.trained) {
    names_.push_back(name);
    parameters.push_back({name, memory_of(tensor)});
  }
  reducer_.emplace(std::move(parameters), reducer_options(), group_);
  broadcast_all(group_, tensors_.frozen, 0, options_.timeout);
  broadcast_all(group_, tensors_.buffers, 0, options_.timeout);
  has_arrived_.resize(names_.size());
  used_before_.resize(names_.size());
  held_.resize(names_.size());
  fired_.resize(names_.size());
  views_.resize(options_.gradient_as_bucket_view ? names_.size() : 0);
  for (std::size_t i = 0; i < views_.size(); ++i) views_[i] = view_of_gradient(i);
}

void DataParallelImpl::attach_hooks() {
  std::vector<at::Tensor> parameters;
  for (const NamedTensor& trained : tensors_.trained) parameters.push_back(trained.tensor);
  hooks_.emplace(parameters, [weak = weak_from_this()](std::size_t parameter) {
    if (const auto self = weak.lock()) self->on_gradient(parameter);
  });
}

std::optional<std::string> DataParallelImpl::problem() const {
  if (tensors_.trained.empty()) return "no parameter of the module requires a gradient";
  if (auto reason = problem_of_devices()) return reason;
  for (const std::vector<NamedTensor>* all : {&tensors_.trained, &tensors_.frozen, &tensors_.buffers}) {
    for (const auto& [name, tensor] : *all)
      if (const auto reason = why_not_dense(tensor)) return name + " " + *reason;
  }
  return std::nullopt;
}

// Each GPU has a process of its own: a module is on one.
std::optional<std::string> DataParallelImpl::problem_of_devices() const {
  const auto check = [this](const char* option, int id) -> std::optional<std::string> {
    if (device().is_cuda() && device().index() == id) return std::nullopt;
    return std::string(option) + " names cuda:" + std::to_string(id) + ", and the module is on " +
           device().str();
  };
  if (options_.device_ids.size() > 1)
    return "device_ids has " + std::to_string(options_.device_ids.size()) + " devices: a module is on one";
  for (const int id : options_.device_ids)
    if (auto reason = check("device_ids", id)) return reason;
  return options_.output_device ? check("output_device", *options_.output_device) : std::nullopt;
}

at::Tensor DataParallelImpl::on_device(const at::Tensor& argument) const {
  if (options_.device_ids.empty() || !argument.defined()) return argument;
  return argument.to(device(), /*non_blocking=*/true);
}

ReducerOptions DataParallelImpl::reducer_options() const {
  ReducerOptions options;
  options.first_bucket_bytes = options_.first_bucket_bytes;
  options.bucket_cap_bytes = options_.bucket_cap_mb << 20;
  options.find_unused_parameters = options_.find_unused_parameters || options_.static_graph;
  options.timeout = options_.timeout;
  options.log_fields = log_fields();
  return options;
}

// The names are those of PyTorch's log.
std::vector<std::pair<std::string, std::string>> DataParallelImpl::log_fields() const {
  const auto flag = [](bool value) { return std::string(value ? "1" : "0"); };
  std::vector<std::pair<std::string, std::string>> fields = {
      {"module_name", module_->name()},
      {"broadcast_buffers", flag(options_.broadcast_buffers)},
      {"gradient_as_bucket_view", flag(options_.gradient_as_bucket_view)},
      {"static_graph", flag(options_.static_graph)},
      {"delay_all_reduce", flag(options_.delay_all_reduce)},
      {"is_multi_device_module", "0"},
      {"device_ids", options_.device_ids.empty() ? "" : std::to_string(options_.device_ids.front())},
      {"output_device", std::to_string(options_.output_device.value_or(-1))},
      {"iteration", "0"},
  };
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME",
                           "TORCH_DISTRIBUTED_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "NCCL_NTHREADS",
                           "NCCL_IB_TIMEOUT", "NCCL_BLOCKING_WAIT", "NCCL_ASYNC_ERROR_HANDLING"}) {
    std::string field = name;
    for (char& letter : field) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    const char* const value = std::getenv(name);
    fields.emplace_back(std::move(field), value == nullptr ? "N/A" : value);
  }
  return fields;
}

void DataParallelImpl::begin_forward() {
  reduces_ = c10::GradMode::is_enabled() && no_sync_guards_ == 0;
  if (!c10::GradMode::is_enabled()) return;
  require_finished();
  {
    const std::lock_guard lock(mutex_);
    accepts_ = false;
  }
  if (!reduces_) return;
  if (join_ && !step_open_) or_fail([&] { join_->count(true); });
  if (options_.broadcast_buffers && (module_->is_training() || join_))
    broadcast_all(group_, tensors_.buffers, source_rank(), options_.timeout);
  // A forward() without backward() has left its step.
  if (!step_open_) begin_step();
}

// A loss may be computed by several backward(), so that only the next forward() shows that gradients are
// missing.
void DataParallelImpl::require_finished() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (!step_open_ || std::ranges::all_of(fired_, [](std::size_t calls) { return calls == 0; })) return;
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (has_arrived_[i] == 0) missing.push_back(i);
  const std::string reason = "the step before has not finished: " + std::to_string(missing.size()) + " of " +
                             std::to_string(names_.size()) + " parameters got no gradient from backward(): " +
                             dlaunch::internal::parameters_text(missing, names_) +
                             "; use all outputs of forward() in the loss, or set find_unused_parameters";
  group_.abort(reason);
  failure_ = std::make_exception_ptr(
      DistError(reason, {.rank = group_.rank(), .operation = "forward", .group = group_.name()}));
  std::rethrow_exception(failure_);
}

void DataParallelImpl::begin_step() {
  reducer_->begin_step();
  follow_buckets();
  const std::lock_guard lock(mutex_);
  arrived_ = 0;
  std::ranges::fill(has_arrived_, 0);
  std::ranges::fill(fired_, 0);
  unused_.clear();
  step_open_ = true;
}

void DataParallelImpl::end_forward(const std::vector<at::Tensor>& outputs) {
  if (!reduces_) return;
  std::vector<std::size_t> unused = unused_parameters(outputs);
  if (unused.size() == names_.size()) {  // there will be no backward()
    or_fail([&] {
      if (deliver_unused(unused)) finish_step();
    });
    return;
  }
  const std::lock_guard lock(mutex_);
  pending_unused_ = std::move(unused);
  accepts_ = true;
}

std::vector<std::size_t> DataParallelImpl::unused_parameters(const std::vector<at::Tensor>& outputs) const {
  if (!options_.static_graph)
    return options_.find_unused_parameters ? hooks_->unreached_from(outputs) : std::vector<std::size_t>();
  std::vector<std::size_t> unused;
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    if (wanted_[i] == 0) unused.push_back(i);
  return unused;
}

void DataParallelImpl::on_gradient(std::size_t parameter) {
  or_fail([&] { take_gradient(parameter); });
}

void DataParallelImpl::on_end_of_backward(void (DataParallelImpl::*call)()) {
  at_end_of_backward([weak = weak_from_this(), call] {
    if (const auto self = weak.lock()) self->or_fail([&] { (self.get()->*call)(); });
  });
}

void DataParallelImpl::take_gradient(std::size_t parameter) {
  std::vector<std::size_t> unused;
  {
    const std::lock_guard lock(mutex_);
    if (!accepts_) {
      used_before_[parameter] = 1;
      return;
    }
    ++fired_[parameter];
    unused = std::exchange(pending_unused_, {});
    if (collects() && std::exchange(end_is_queued_, true)) return;
    if (!wanted_.empty() && fired_[parameter] < wanted_[parameter]) return;
  }
  deliver_unused(unused);
  if (collects()) {
    on_end_of_backward(&DataParallelImpl::deliver_collected);
  } else if (deliver(parameter)) {
    on_end_of_backward(&DataParallelImpl::finish_step);
  }
}

void DataParallelImpl::deliver_collected() {
  std::vector<std::size_t> ready;
  std::vector<std::size_t> missing;
  {
    const std::lock_guard lock(mutex_);
    end_is_queued_ = false;
    for (std::size_t i = names_.size(); i-- > 0;)
      if (has_arrived_[i] == 0) (fired_[i] > 0 ? ready : missing).push_back(i);
  }
  if (learns_graph()) {
    deliver_unused(missing);
  } else if (!missing.empty()) {
    return;  // another backward() may compute them
  }
  for (const std::size_t parameter : ready) deliver(parameter);
  finish_step();
}

bool DataParallelImpl::deliver(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  const at::Tensor& value = tensors_.trained[parameter].tensor;
  at::Tensor& gradient = gradient_place(value);
  if (!gradient.defined()) gradient = at::zeros_like(value);
  if (gradient.layout() != at::kStrided) {
    throw DistError("parameter " + dlaunch::internal::parameter_text(parameter, names_) +
                        " has a sparse gradient; make its layer with sparse(false)",
                    {.rank = group_.rank(), .operation = "backward", .group = group_.name()});
  }
  if (options_.gradient_as_bucket_view) {
    if (!is_in_bucket(parameter)) gradient = views_[parameter].copy_(gradient);
    reducer_->mark_ready(parameter);
  } else {
    if (gradient.strides() != value.strides()) gradient = at::empty_like(value).copy_(gradient);
    held_[parameter] = gradient;
    reducer_->mark_ready(parameter, memory_of(gradient));
  }
  return arrive(parameter);
}

bool DataParallelImpl::deliver_unused(const std::vector<std::size_t>& parameters) {
  bool complete = false;
  for (const std::size_t parameter : parameters) {
    if (used_before_[parameter] != 0) {
      complete = deliver(parameter);
      continue;
    }
    reducer_->mark_unused(parameter);
    unused_.push_back(parameter);
    complete = arrive(parameter);
  }
  return complete;
}

bool DataParallelImpl::arrive(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  has_arrived_[parameter] = 1;
  return ++arrived_ == names_.size();
}

void DataParallelImpl::finish_step() {
  reducer_->finish_step();
  const at::NoGradGuard no_grad;
  for (const std::size_t parameter : unused_) take_result_of_unused(parameter);
  scale_gradients();
  const std::lock_guard lock(mutex_);
  if (learns_graph()) wanted_ = fired_;
  std::ranges::fill(used_before_, 0);
  std::ranges::fill(held_, at::Tensor());
  step_open_ = false;
  accepts_ = false;
}

void DataParallelImpl::take_result_of_unused(std::size_t parameter) {
  const at::Tensor& value = tensors_.trained[parameter].tensor;
  at::Tensor& gradient = gradient_place(value);
  if (!reducer_->used(parameter)) {
    // No gradient at all, so that an optimizer leaves the parameter as it is: in the bucket are zeros.
    if (options_.gradient_as_bucket_view && is_in_bucket(parameter)) gradient.reset();
    return;
  }
  if (options_.gradient_as_bucket_view) {
    gradient = views_[parameter];
  } else {
    if (!gradient.defined()) gradient = at::empty_like(value);
    gradient.copy_(view_of_gradient(parameter));
  }
}

at::Tensor DataParallelImpl::view_of_gradient(std::size_t parameter) const {
  const at::Tensor& value = tensors_.trained[parameter].tensor;
  // The program may hold the view longer than the reducer.
  return at::from_blob(
      reducer_->gradient(parameter).data(), value.sizes(), value.strides(),
      [memory = reducer_->memory()](void*) {}, value.options().requires_grad(false), value.device());
}

bool DataParallelImpl::is_in_bucket(std::size_t parameter) const {
  const at::Tensor& gradient = gradient_place(tensors_.trained[parameter].tensor);
  return gradient.defined() && gradient.data_ptr() == views_[parameter].data_ptr() &&
         gradient.strides() == views_[parameter].strides();
}

// The reducer has laid out its buckets anew: the views follow, and so do the gradients, whose values it has
// kept.
void DataParallelImpl::follow_buckets() {
  for (std::size_t i = 0; i < views_.size(); ++i) {
    if (reducer_->gradient(i).data() == views_[i].data_ptr()) continue;
    const bool was_in_bucket = is_in_bucket(i);  // the old one, which the view still holds
    views_[i] = view_of_gradient(i);
    if (was_in_bucket) gradient_place(tensors_.trained[i].tensor) = views_[i];
  }
}

DataParallelStatistics DataParallelImpl::statistics() const {
  return {.module_name = module_->name(),
          .rank = group_.rank(),
          .world_size = group_.size(),
          .backend = group_.backend(),
          .parameter_names = names_,
          .buffers = options_.broadcast_buffers ? tensors_.buffers.size() : 0,
          .reducer = reducer_->statistics()};
}

}  // namespace dlaunch::torch::internal
