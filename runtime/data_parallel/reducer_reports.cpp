// What a reducer reports: its errors and its log.
#include <chrono>
#include <set>
#include <span>
#include <utility>

#include "dlaunch/debug.h"
#include "dlaunch/error.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/data_parallel/reducer_impl.h"
#include "runtime/gradients/agreement.h"

namespace dlaunch::internal {

namespace {

// The steps whose times are logged: often at the beginning, then rarely.
bool is_logged(std::uint64_t step) { return step <= 10 || step == 20 || step == 100 || step % 1000 == 0; }

}  // namespace

void ReducerImpl::require_index(const char* call, std::size_t parameter) const {
  if (parameter < like_.size()) return;
  reject(call, "there is no parameter " + std::to_string(parameter) + ": the reducer has " +
                   std::to_string(like_.size()));
}

void ReducerImpl::require_memory_like(std::size_t parameter, const Tensor& gradient) const {
  const Tensor& wanted = like_[parameter];
  if (gradient.dtype() == wanted.dtype() && gradient.numel() == wanted.numel() &&
      gradient.device() == wanted.device() && !gradient.read_only()) {
    return;
  }
  reject("mark_ready", "the gradient of parameter " + parameter_text(parameter, names_) + " is " +
                           gradient.to_string() + (gradient.read_only() ? ", read-only" : "") +
                           ", its parameter " + wanted.to_string());
}

void ReducerImpl::require_intact() const {
  if (failure_) std::rethrow_exception(failure_);
}

void ReducerImpl::reject(const char* call, const std::string& reason) const {
  throw DistError(reason, {.rank = group_.rank(), .operation = call, .group = group_.name()});
}

// The first error counts.
void ReducerImpl::fail(std::exception_ptr error) {
  if (!failure_) failure_ = std::move(error);
  in_step_ = false;
  std::rethrow_exception(failure_);
}

// Without it ranks that met no error would wait for this one. Does nothing to a group that is broken.
void ReducerImpl::give_up(const std::exception_ptr& error) {
  group_.abort(reason_of(error));
  fail(error);
}

void ReducerImpl::fail_for_missing(std::span<const std::size_t> missing) {
  const std::string reason =
      std::to_string(missing.size()) + " of " + std::to_string(like_.size()) +
      " parameters got no gradient in step " + std::to_string(step_) + ": " +
      parameters_text(missing, names_) +
      "; mark each gradient before finish_step, or make the reducer with find_unused_parameters";
  give_up(std::make_exception_ptr(
      DistError(reason, {.rank = group_.rank(), .operation = "finish_step", .group = group_.name()})));
}

std::string ReducerImpl::marked_twice(std::size_t parameter) const {
  return "parameter " + parameter_text(parameter, names_) + " is marked a second time in step " +
         std::to_string(step_) +
         "; a gradient is marked once a step, after all layers that share it have added their parts";
}

std::string ReducerImpl::bucket_text(std::size_t bucket) const {
  const std::vector<BucketPlan>& plans = memory_->plans();
  return "gradients of parameters " + parameters_text(plans[bucket].parameters, names_) + " (bucket " +
         std::to_string(bucket) + " of " + std::to_string(plans.size()) + ")";
}

// The names are those of PyTorch's log.
void ReducerImpl::log_construction() const {
  if (!logs(LogLevel::debug)) return;
  std::vector<std::size_t> bucket_sizes;
  std::size_t bytes = 0;
  std::set<std::string> dtypes;
  for (const BucketPlan& plan : memory_->plans()) {
    bucket_sizes.push_back(plan.bytes);
    bytes += plan.bytes;
    dtypes.emplace(to_string(plan.dtype));
  }
  std::vector<std::pair<std::string, std::string>> fields = {
      {"rank", std::to_string(group_.rank())},
      {"world_size", std::to_string(group_.size())},
      {"backend_name", group_.backend()},
      {"num_parameter_tensors", std::to_string(like_.size())},
      {"total_parameter_size_bytes", std::to_string(bytes)},
      {"dtypes", comma_separated(std::vector<std::string>(dtypes.begin(), dtypes.end()))},
      {"first_bucket_bytes", std::to_string(options_.first_bucket_bytes)},
      {"bucket_cap_bytes", std::to_string(options_.bucket_cap_bytes)},
      {"bucket_sizes", comma_separated(bucket_sizes)},
      {"find_unused_parameters", options_.find_unused_parameters ? "1" : "0"},
      {"broadcast_parameters", options_.broadcast_parameters ? "1" : "0"},
      {"comm_hook", options_.comm_hook ? "1" : "0"},
  };
  fields.insert(fields.end(), options_.log_fields.begin(), options_.log_fields.end());
  const std::string prefix = "[rank " + std::to_string(group_.rank()) + "]: GradientReducer: ";
  for (const auto& [name, value] : fields) {
    std::string line = prefix;
    line.append(name).append(": ").append(value);
    log(LogLevel::debug, line);
  }
}

void ReducerImpl::log_rebuilt() const {
  if (!logs(LogLevel::debug)) return;
  log(LogLevel::debug, "[rank " + std::to_string(group_.rank()) +
                           "]: GradientReducer: buckets rebuilt in the order of arrival: " +
                           std::to_string(memory_->plans().size()));
}

void ReducerImpl::log_times() const {
  if (!logs(LogLevel::trace) || !is_logged(times_.steps())) return;
  const StepTimes average = times_.average();
  const auto field = [](const char* name, std::chrono::nanoseconds time) {
    return std::string(", ") + name + " " + std::to_string(time.count()) + " ns";
  };
  log(LogLevel::trace, "[rank " + std::to_string(group_.rank()) + " / " + std::to_string(group_.size()) +
                           "]: GradientReducer: step " + std::to_string(times_.steps()) +
                           ", unused parameters " + std::to_string(unused_here_) +
                           field("average forward", average.forward) + field("backward", average.backward) +
                           field("communication", average.communication) + field("overlap", average.overlap));
}

}  // namespace dlaunch::internal
