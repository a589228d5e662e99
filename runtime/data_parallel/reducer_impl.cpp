#include "runtime/data_parallel/reducer_impl.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "dlaunch/debug.h"
#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/data_parallel/reducer_agreement.h"
#include "runtime/gradients/agreement.h"
#include "runtime/reduce/reduce.h"

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
    if (value.device().kind != Device::Kind::cpu)
      return parameter + " is on " + to_string(value.device()) + "; the reducer has memory of the CPU only";
    if (options.broadcast_parameters && value.read_only())
      return parameter + " is read-only; broadcast_parameters writes to it";
    if (options.comm_hook) continue;
    if (const auto reason = why_not_allowed(value.dtype(), options.op)) return parameter + ": " + *reason;
  }
  return std::nullopt;
}

void set_bit(std::span<std::uint8_t> bits, std::size_t place) {
  bits[place / 8] = static_cast<std::uint8_t>(bits[place / 8] | (1U << (place % 8)));
}

bool has_bit(std::span<const std::uint8_t> bits, std::size_t place) {
  return ((bits[place / 8] >> (place % 8)) & 1U) != 0;
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
  require_agreement(group_, parameters, names_, options_, problem_of(parameters, names_, options_));
  if (options_.broadcast_parameters) broadcast_parameters(group_, parameters);
  own_.resize(like_.size());
  left_.resize(like_.size());
  used_.assign((like_.size() + 7) / 8, 0xff);
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
  // The other ranks of this host read the buckets in place.
  shared_bytes_ = 0;
  const auto allocate = [this](std::size_t bytes) -> std::shared_ptr<std::byte> {
    const auto block = std::make_shared<SharedMemory>(group_.allocate_shared(bytes));
    if (block->is_shared()) shared_bytes_ += bytes;
    return {block, block->data()};
  };
  auto memory = std::make_shared<BucketMemory>(like_, std::move(plans), allocate);
  if (memory_) memory->copy_from(*memory_);
  memory_ = std::move(memory);
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
  memory_->zero();
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
    require_same_step(group_, {.step = step_ + 1, .synchronised = reduces ? 1 : 0});
  }
  if (!arrival_order_.empty()) rebuild();
  const Lock lock(mutex_);
  ++step_;
  state_.begin();
  works_.assign(memory_->plans().size(), Work());
  std::ranges::fill(used_here_, 0);
  if (reduces) unused_here_ = 0;
  last_end_ = std::make_shared<std::atomic<std::int64_t>>(0);
  moments_ = {.begin = steady_ns()};
  reduces_ = reduces;
  in_step_ = true;
}

// All ranks take the order of rank 0: a reduction must hold the same gradients everywhere.
void ReducerImpl::rebuild() {
  std::vector<std::int64_t> numbers(arrival_order_.begin(), arrival_order_.end());
  try {
    group_.broadcast(Tensor::of(numbers), 0, {.async_op = false, .timeout = options_.timeout});
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
  set_bit(used_here_, parameter);
  if (moments_.first_gradient == 0) moments_.first_gradient = steady_ns();
  if (!is_view) {
    lock.unlock();
    copy_values(memory_->gradient(parameter), *gradient);
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
  if (left_[parameter] != 0) {
    set_bit(used_here_, parameter);
    if (own_[parameter].data() != nullptr) copy_values(place, own_[parameter]);
    return;
  }
  ++unused_here_;
  set_own(parameter, nullptr);
  if (place.nbytes() > 0) std::memset(place.data(), 0, place.nbytes());
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
    lock.unlock();
    std::exception_ptr error;
    try {
      works_[*bucket] = launch(*bucket);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    launching_ = false;
    if (error) {
      launched_.notify_all();
      give_up(hook_ ? error : with_words(error, bucket_text(*bucket) + ": "));
    }
  }
  launched_.notify_all();
}

Work ReducerImpl::launch(std::size_t bucket) {
  Work work = hook_ ? hook_(buckets_[bucket])
                    : group_.all_reduce(memory_->buffer(bucket), options_.op,
                                        {.async_op = true, .timeout = options_.timeout});
  // Keeps the memory until then. finish_step() reports an error; here it is only seen, so that it is not
  // logged as one that no call waited for.
  work.then([memory = memory_, end = last_end_](const Work& ended) {
    static_cast<void>(ended.exception());
    end->store(steady_ns());
  });
  return work;
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
  const auto used = std::make_shared<std::vector<std::uint8_t>>(used_here_);
  Work used_work;
  std::exception_ptr used_error;  // a bucket's error is its cause, if there is one
  try {
    if (options_.find_unused_parameters) used_work = reduce_used(used);
  } catch (...) {
    used_error = std::current_exception();
  }
  // A Work of a hook may have no deadline of its own. If it has, it ends first, and its error names the rank.
  const std::chrono::milliseconds longest = options_.timeout.value_or(group_.timeout()) + hook_grace;
  for (std::size_t bucket = 0; bucket < works_.size(); ++bucket) {
    try {
      if (hook_) {
        works_[bucket].wait(longest);
      } else {
        works_[bucket].wait();
      }
    } catch (...) {
      give_up(with_words(std::current_exception(), bucket_text(bucket) + ": "));
    }
  }
  try {
    if (used_error) std::rethrow_exception(used_error);
    used_work.wait();
  } catch (...) {
    give_up(with_words(std::current_exception(), "which parameters the ranks have used: "));
  }
  if (options_.find_unused_parameters) used_ = *used;
}

Work ReducerImpl::reduce_used(const std::shared_ptr<std::vector<std::uint8_t>>& bits) const {
  Work work =
      group_.all_reduce(Tensor::of(*bits), ReduceOp::bor, {.async_op = true, .timeout = options_.timeout});
  work.then([bits](const Work& ended) { static_cast<void>(ended.exception()); });
  return work;
}

void ReducerImpl::take_results() {
  for (std::size_t parameter = 0; parameter < own_.size(); ++parameter) {
    if (own_[parameter].data() != nullptr) {
      copy_values(own_[parameter], memory_->gradient(parameter));
      own_[parameter] = Tensor();
    }
  }
  std::ranges::fill(left_, 0);
  moments_.last_end = last_end_->load();
  last_times_ = times_of(moments_);
  times_.add(last_times_);
  if (std::exchange(may_rebuild_, false))
    arrival_order_.assign(state_.arrival_order().begin(), state_.arrival_order().end());
  in_step_ = false;
  log_times();
}

bool ReducerImpl::used(std::size_t parameter) const {
  require_index("used", parameter);
  return has_bit(used_, parameter);
}

void ReducerImpl::register_comm_hook(CommHook hook) {
  require_intact();
  if (in_step_) reject("register_comm_hook", "a step has begun; call it between two steps");
  hook_ = std::move(hook);
}

ReducerStatistics ReducerImpl::statistics() const {
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
