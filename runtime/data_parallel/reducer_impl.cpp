#include "runtime/data_parallel/reducer_impl.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "dlaunch/debug.h"
#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/start_thread.h"
#include "runtime/data_parallel/reducer_agreement.h"
#include "runtime/gradients/agreement.h"
#include "runtime/reduce/reduce.h"
#include "runtime/staging/carried_memory.h"

namespace dlaunch::internal {

namespace {

// Longer than a transport needs, after a deadline, to find out which rank is missing.
constexpr std::chrono::seconds hook_grace{2};

// What is wrong with this rank's arguments.
std::optional<std::string> problem_of(std::span<const Parameter> parameters,
                                      std::span<const std::string> names, const ReducerOptions& options) {
  if (parameters.empty()) return "there are no parameters";
  if (options.timeout && !is_timeout(*options.timeout)) return no_timeout_at_all;
  if (options.op != ReduceOp::avg && options.op != ReduceOp::sum)
    return "gradients are reduced by avg or sum, not by " + std::string(to_string(options.op));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& value = parameters[i].value;
    const std::string parameter = "parameter " + parameter_text(i, names);
    if (value.device() != parameters[0].value.device()) {
      return parameter + " is on " + to_string(value.device()) + ", and parameter " +
             parameter_text(0, names) + " on " + to_string(parameters[0].value.device()) +
             "; the parameters of a reducer are on one device";
    }
    if (options.broadcast_parameters && value.read_only())
      return parameter + " is read-only; broadcast_parameters writes to it";
    if (options.comm_hook) continue;
    if (const auto reason = why_not_allowed(value.dtype(), options.op)) return parameter + ": " + *reason;
  }
  return std::nullopt;
}

// Frees memory of a device on a thread of its own if nobody else has it: to free it waits for the device, and
// what has to end there may need the thread that has seen the end of a reduction.
void release(std::shared_ptr<BucketMemory> memory) noexcept {
  if (memory.use_count() > 1) return;
  try {
    start_thread([memory = std::move(memory)] {}).detach();
  } catch (const DistError&) {  // NOLINT(bugprone-empty-catch): then it is freed here
  }
}

}  // namespace

ReducerImpl::ReducerImpl(std::vector<Parameter> parameters, ReducerOptions options, ProcessGroup group)
    : group_(group ? std::move(group) : default_group()),
      options_(std::move(options)),
      hook_(options_.comm_hook),
      state_(0, {}) {
  if (group_.rank() < 0) reject("GradientReducer", "this process is not a member of the group");
  for (Parameter& parameter : parameters) {
    names_.push_back(std::move(parameter.name));
    like_.push_back(parameter.value);
    sizes_.push_back({parameter.value.nbytes(), parameter.value.dtype()});
  }
  std::optional<std::string> problem = problem_of(parameters, names_, options_);
  try {
    device_ = std::make_unique<GradientDevice>(device_of(parameters), group_);
  } catch (const DistError& error) {
    if (!problem) problem = error.reason();
  }
  require_agreement(group_, parameters, names_, options_, problem);
  if (options_.broadcast_parameters) broadcast_parameters(group_, parameters);
  own_.resize(like_.size());
  left_.resize(like_.size());
  used_.assign(like_.size(), 1);
  used_here_.resize(used_.size());
  may_rebuild_ = options_.rebuild_buckets && !options_.find_unused_parameters;
  lay_out(reverse_order(like_.size()));
  log_construction();
}

void ReducerImpl::lay_out(std::span<const std::size_t> order) {
  std::vector<BucketPlan> plans =
      assign_buckets(sizes_, order, {options_.first_bucket_bytes, options_.bucket_cap_bytes});
  if (memory_ && plans == memory_->plans()) return;
  state_ = StepState(like_.size(), plans);
  shared_bytes_ = 0;
  const auto allocate = [this](std::size_t bytes) {
    GradientDevice::Block block = device_->allocate(bytes);
    if (block.is_shared) shared_bytes_ += bytes;
    return std::move(block.memory);
  };
  auto memory = std::make_shared<BucketMemory>(like_, std::move(plans), allocate);
  if (memory_) memory->copy_from(*memory_, *device_);
  memory_ = std::move(memory);
  device_->end_step();
  buckets_.clear();
  for (std::size_t bucket = 0; bucket < memory_->plans().size(); ++bucket) {
    const BucketPlan& plan = memory_->plans()[bucket];
    GradientBucket& entry = buckets_.emplace_back();
    entry.index = bucket;
    entry.is_last = bucket + 1 == memory_->plans().size();
    entry.buffer = memory_->buffer(bucket);
    entry.parameters = plan.parameters;
    for (const std::size_t parameter : plan.parameters)
      entry.gradients.push_back(memory_->gradient(parameter));
    entry.group = group_;
    entry.timeout = options_.timeout;
  }
}

Tensor ReducerImpl::gradient(std::size_t parameter) const {
  require_index("gradient", parameter);
  return memory_->gradient(parameter);
}

void ReducerImpl::zero_gradients() {
  require_intact();
  const Lock lock(mutex_);
  if (in_step_ && !state_.arrival_order().empty() && reduces_)
    reject("zero_gradients", "gradients of this step are being reduced; call it before the first mark_ready");
  memory_->zero(*device_);
  if (in_step_) return;
  // Nothing is left of steps in no_sync().
  std::ranges::fill(left_, 0);
  std::ranges::fill(own_, Tensor());
}

void ReducerImpl::begin_step() {
  require_intact();
  if (in_step_)
    reject("begin_step", "step " + std::to_string(step_) + " has not finished: call finish_step first");
  const bool reduces = no_sync_guards_ == 0;
  if (get_debug_level() == DebugLevel::detail) {
    require_same_step(group_, {.step = step_ + 1, .synchronised = reduces ? 1 : 0}, device_->device());
  }
  if (!arrival_order_.empty()) rebuild();
  measure_ended_steps();
  const Lock lock(mutex_);
  ++step_;
  state_.begin();
  started_.assign(memory_->plans().size(), BucketReduction(Work()));
  std::ranges::fill(used_here_, 0);
  if (reduces) unused_here_ = 0;
  reductions_ = std::make_shared<Reductions>();
  moments_ = {.begin = steady_ns()};
  reduces_ = reduces;
  in_step_ = true;
}

// All ranks take the order of rank 0: a reduction must hold the same gradients everywhere.
void ReducerImpl::rebuild() {
  std::vector<std::int64_t> numbers(arrival_order_.begin(), arrival_order_.end());
  try {
    CarriedMemory carried(group_, device_->device());
    group_.broadcast(carried.of(numbers), 0, {.async_op = false, .timeout = options_.timeout});
    carried.fetch();
    std::vector<std::size_t> order(numbers.begin(), numbers.end());
    if (!is_permutation_of(order, like_.size())) {
      throw DistNetworkError("rank 0 has sent an order that does not have each parameter once",
                             {.rank = group_.rank(), .operation = "begin_step", .group = group_.name()});
    }
    lay_out(order);
  } catch (...) {
    fail(std::current_exception());
  }
  arrival_order_.clear();
  rebuilt_ = true;
  log_rebuilt();
}

void ReducerImpl::mark_ready(std::size_t parameter, const Tensor* gradient) {
  Lock lock(mutex_);
  require_markable("mark_ready", parameter);
  if (gradient != nullptr) require_memory_like(parameter, *gradient);
  claim("mark_ready", parameter);
  const bool is_view = gradient == nullptr || gradient->data() == memory_->gradient(parameter).data();
  set_own(parameter, is_view ? nullptr : gradient);
  if (!reduces_) {
    left_[parameter] = 1;
    state_.arrive(parameter);
    return;
  }
  used_here_[parameter] = 1;
  if (moments_.first_gradient == 0) moments_.first_gradient = steady_ns();
  device_->enter();
  if (!is_view) {
    lock.unlock();
    device_->copy(memory_->gradient(parameter), *gradient);
    lock.lock();
    require_intact();  // another thread may have met an error meanwhile
  }
  arrive(lock, parameter);
}

void ReducerImpl::set_own(std::size_t parameter, const Tensor* gradient) {
  if (gradient != nullptr) {
    own_[parameter] = *gradient;
  } else if (own_[parameter].data() != nullptr) {
    own_[parameter] = Tensor();
  }
}

void ReducerImpl::mark_unused(std::size_t parameter) {
  Lock lock(mutex_);
  if (!options_.find_unused_parameters)
    reject("mark_unused", "the reducer was made without find_unused_parameters");
  require_markable("mark_unused", parameter);
  claim("mark_unused", parameter);
  if (!reduces_) return state_.arrive(parameter);
  contribute_without_gradient(parameter);
  arrive(lock, parameter);
}

void ReducerImpl::require_markable(const char* call, std::size_t parameter) const {
  require_intact();
  require_index(call, parameter);
  if (!in_step_) reject(call, "no step has begun: call begin_step first");
}

void ReducerImpl::claim(const char* call, std::size_t parameter) {
  if (!state_.claim(parameter)) reject(call, marked_twice(parameter));
}

void ReducerImpl::contribute_without_gradient(std::size_t parameter) {
  const Tensor& place = memory_->gradient(parameter);
  device_->enter();
  if (left_[parameter] != 0) {
    used_here_[parameter] = 1;
    if (own_[parameter].data() != nullptr) device_->copy(place, own_[parameter]);
    return;
  }
  ++unused_here_;
  set_own(parameter, nullptr);
  device_->zero(place);
}

void ReducerImpl::arrive(Lock& lock, std::size_t parameter) {
  state_.arrive(parameter);
  if (state_.all_arrived()) moments_.last_gradient = steady_ns();
  launch_complete_buckets(lock);
}

void ReducerImpl::launch_complete_buckets(Lock& lock) {
  if (launching_) return;
  while (const std::optional<std::size_t> bucket = state_.next_launch()) {
    if (moments_.first_launch == 0) moments_.first_launch = steady_ns();
    launching_ = true;
    std::exception_ptr error;
    try {
      device_->join();
      lock.unlock();
      started_[*bucket] = launch(*bucket);
    } catch (...) {
      error = std::current_exception();
    }
    if (!lock) lock.lock();
    launching_ = false;
    if (error) {
      launched_.notify_all();
      give_up(hook_ ? error : with_words(error, bucket_text(*bucket) + ": "));
    }
  }
  launched_.notify_all();
}

BucketReduction ReducerImpl::launch(std::size_t bucket) {
  BucketReduction started = hook_ ? hook_(buckets_[bucket])
                                  : group_.all_reduce(memory_->buffer(bucket), options_.op,
                                                      {.async_op = true, .timeout = options_.timeout});
  ++reductions_->running;
  // Keeps the memory until then. finish_step() reports an error; here it is only seen, so that it is not
  // logged as one that no call waited for.
  started.work.then(
      [memory = memory_, reductions = reductions_, is_cpu = device_->is_cpu()](const Work& ended) mutable {
        static_cast<void>(ended.exception());
        reductions->last_end = steady_ns();
        --reductions->running;
        if (!is_cpu) release(std::move(memory));
      });
  return started;
}

void ReducerImpl::finish_step() {
  {
    Lock lock(mutex_);
    require_intact();
    if (!in_step_) reject("finish_step", "no step has begun: call begin_step first");
    if (!reduces_) {
      in_step_ = false;
      return;
    }
    const std::vector<std::size_t> missing = state_.missing();
    if (!missing.empty() && !options_.find_unused_parameters) fail_for_missing(missing);
    for (const std::size_t parameter : missing) {
      state_.claim(parameter);
      contribute_without_gradient(parameter);
      arrive(lock, parameter);
    }
    launched_.wait(lock, [this] { return !launching_; });
    require_intact();
    if (!state_.all_arrived()) reject("finish_step", "another thread is still marking a gradient");
  }
  await_reductions();
  take_results();
}

void ReducerImpl::await_reductions() {
  std::exception_ptr used_error;  // a bucket's error is its cause, if there is one
  try {
    if (options_.find_unused_parameters) reduce_used();
  } catch (...) {
    used_error = std::current_exception();
  }
  for (std::size_t bucket = 0; bucket < started_.size(); ++bucket) {
    try {
      await(bucket);
    } catch (...) {
      give_up(with_words(std::current_exception(), bucket_text(bucket) + ": "));
    }
  }
  if (used_error) give_up(with_words(used_error, "which parameters the ranks have used: "));
}

// A Work of a hook may have no deadline of its own. If it has, it ends first, and its error names the rank.
// What is in the order of the stream already needs no waiting host.
void ReducerImpl::await(std::size_t bucket) {
  auto& [work, finish] = started_[bucket];
  if (hook_ && !work.is_completed()) {
    work.wait(options_.timeout.value_or(group_.timeout()) + hook_grace);
  } else {
    work.wait();
  }
  if (const auto rest = std::exchange(finish, nullptr)) rest();
}

// All ranks wait for each other here, while the buckets are being reduced.
void ReducerImpl::reduce_used() {
  std::vector<std::uint8_t> used = used_here_;
  CarriedMemory carried(group_, device_->device());
  group_.all_reduce(carried.of(used), ReduceOp::max, {.async_op = false, .timeout = options_.timeout});
  carried.fetch();
  used_ = std::move(used);
}

void ReducerImpl::take_results() {
  for (std::size_t parameter = 0; parameter < own_.size(); ++parameter) {
    if (own_[parameter].data() != nullptr) {
      device_->copy(own_[parameter], memory_->gradient(parameter));
      own_[parameter] = Tensor();
    }
  }
  device_->end_step();
  std::ranges::fill(left_, 0);
  unmeasured_.push_back({moments_, reductions_});
  measure_ended_steps();
  if (std::exchange(may_rebuild_, false))
    arrival_order_.assign(state_.arrival_order().begin(), state_.arrival_order().end());
  in_step_ = false;
}

// Reductions on a device may end after their step.
void ReducerImpl::measure_ended_steps() {
  for (; !unmeasured_.empty() && unmeasured_.front().reductions->running == 0; unmeasured_.pop_front()) {
    StepMoments moments = unmeasured_.front().moments;
    moments.last_end = unmeasured_.front().reductions->last_end;
    last_times_ = times_of(moments);
    times_.add(last_times_);
    log_times();
  }
}

bool ReducerImpl::used(std::size_t parameter) const {
  require_index("used", parameter);
  return used_[parameter] != 0;
}

void ReducerImpl::register_comm_hook(CommHook hook) {
  require_intact();
  if (in_step_) reject("register_comm_hook", "a step has begun; call it between two steps");
  hook_ = std::move(hook);
}

ReducerStatistics ReducerImpl::statistics() {
  measure_ended_steps();
  ReducerStatistics statistics{.steps = times_.steps(),
                               .last = last_times_,
                               .average = times_.average(),
                               .unused_parameters = unused_here_,
                               .parameters = like_.size(),
                               .shared_bytes = shared_bytes_,
                               .rebuilt = rebuilt_};
  for (const BucketPlan& plan : memory_->plans()) {
    statistics.bucket_bytes.push_back(plan.bytes);
    statistics.total_bytes += plan.bytes;
  }
  return statistics;
}

}  // namespace dlaunch::internal
