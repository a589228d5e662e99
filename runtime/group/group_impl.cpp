#include "runtime/group/group_impl.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "dlaunch/debug.h"
#include "dlaunch/error.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/quick_clock.h"
#include "runtime/group/argument_checks.h"
#include "runtime/group/profiler.h"
#include "runtime/record/call_stack.h"
#include "runtime/rendezvous/loss_propagation.h"

namespace dlaunch::internal {

namespace {

GroupDescription completed(GroupDescription description) {
  if (description.ranks.empty()) {
    description.ranks.resize(static_cast<std::size_t>(description.size));
    std::iota(description.ranks.begin(), description.ranks.end(), 0);
  }
  return description;
}

// In a forked copy of the process: objects that the original still uses.
struct OfTheOriginal {
  std::shared_ptr<const void> backends;
  std::shared_ptr<Store> keys;
};

// Of the Work that the program gets for one of a backend.
std::function<bool()> order_of(const Work& inner) {
  if (!inner.is_on_stream()) return {};
  return [inner] { return inner.order_stream(); };
}

WorkSource source_after(const Work& inner) {
  return inner.is_captured() ? WorkSource::of_captured(order_of(inner)) : WorkSource(order_of(inner));
}

std::shared_ptr<const std::vector<GroupImpl::DeviceBackend>> with_answers(
    std::vector<GroupImpl::DeviceBackend> backends) {
  for (GroupImpl::DeviceBackend& entry : backends) entry.takes_every_call = entry.backend->takes_every_call();
  return std::make_shared<const std::vector<GroupImpl::DeviceBackend>>(std::move(backends));
}

// For ever.
void keep(OfTheOriginal one) {
  static std::mutex& mutex = *new std::mutex;
  static std::vector<OfTheOriginal>& all = *new std::vector<OfTheOriginal>;
  const std::lock_guard lock(mutex);
  all.push_back(std::move(one));
}

}  // namespace

void GroupImpl::throw_empty() { throw DistError("empty ProcessGroup handle: it names no group"); }

GroupImpl::GroupImpl(GroupDescription description, std::vector<DeviceBackend> backends,
                     std::shared_ptr<Store> keys, GroupRecorder recorder)
    : description_(completed(std::move(description))),
      keys_(std::move(keys)),
      recorder_(recorder),
      timeout_(description_.timeout),
      comparison_(description_, keys_,
                  {.check = [this] { throw_if_lost(); }, .departed = [this] { return departed(); }}),
      backends_(with_answers(std::move(backends))) {}

// In a forked copy of the process nothing may be destroyed: a store would send a goodbye message, and a
// backend would wait for its threads.
GroupImpl::~GroupImpl() {
  if (!own_process_.is_this()) {
    keep({backends_.take_alone(), keys_});
    return;
  }
  end_backends();
  recorder_.leave();
}

// REQUIRES: call_mutex_ is held, or the group has no other user.
//
// Operations that end now call fail(), which must find either a complete backend or none. So the backends are
// removed while no thread calls them, and are destroyed without a lock held.
void GroupImpl::end_backends() {
  std::shared_ptr<const Backends> ending;
  {
    const std::lock_guard stay(abort_mutex_);
    ending = backends_.replace(nullptr);
  }
  HazardPointer<const Backends>::retire(std::move(ending));
}

std::vector<std::shared_ptr<Backend>> GroupImpl::all_backends() const {
  const std::shared_ptr<const Backends> backends = backends_.share();
  std::vector<std::shared_ptr<Backend>> result;
  if (!backends) return result;
  for (const DeviceBackend& entry : *backends) {
    if (std::ranges::find(result, entry.backend) == result.end()) result.push_back(entry.backend);
  }
  return result;
}

std::vector<GroupImpl::DeviceBackend> GroupImpl::split_sources() const {
  const std::shared_ptr<const Backends> backends = backends_.share();
  Backends result;
  if (!backends) return result;
  std::ranges::copy_if(*backends, std::back_inserter(result),
                       [](const DeviceBackend& entry) { return entry.backend->is_split_for_groups(); });
  return result;
}

void GroupImpl::warn_as_non_member(const char* operation) {
  if (!non_member_warned_.test_and_set() && logs(LogLevel::warning)) {
    log(LogLevel::warning,
        "rank " + std::to_string(description_.global_rank) + " called " + operation + " on group " +
            description_.name + " (" + describe_ranks(description_.ranks) +
            "), of which it is not a member: this call and later ones of this rank on that group "
            "do nothing");
  }
}

std::shared_ptr<Backend> GroupImpl::usable_backend(const char* operation,
                                                   std::optional<Device> device) const {
  require_own_process(operation);
  const HazardPointer<const Backends>::Use backends(backends_);
  return usable_backend(backends.get(), operation, device).backend;
}

void GroupImpl::throw_unusable(const char* operation, const std::optional<Device>& device) const {
  const std::lock_guard lock(state_mutex_);
  const ErrorContext here{.rank = description_.rank, .operation = operation, .group = description_.name};
  if (first_error_) std::rethrow_exception(with_words(first_error_, "the group is broken: "));
  if (destroyed_) throw DistError("the group was destroyed", here);
  throw DistBackendError(
      "backend " + description_.backend + " does not work on device " + to_string(device.value_or(Device{})),
      here);
}

void GroupImpl::require_offered(Backend& backend, const char* name, const CallSubject& call) const {
  const std::string why = backend.why_not(call);
  if (why.empty()) return;
  throw DistBackendError(why, {.rank = description_.rank, .operation = name, .group = description_.name});
}

void GroupImpl::set_timeout(std::chrono::milliseconds timeout) {
  require_member(description_, "set_timeout");
  (void)timeout_for("set_timeout", timeout);  // rejects an invalid timeout
  timeout_ = timeout;
}

Work GroupImpl::run(const OperationSpec& call, const OperationOptions& options, Start start) {
  require_own_process(call.name);
  const Timeout limit = timeout_for(call.name, options.timeout);
  const std::lock_guard turn(call_mutex_);  // so destroy() does not end the backends meanwhile
  const Backends* const backends = backends_.unchanged();
  const DeviceBackend& chosen = usable_backend(backends, call.name, call.device);
  Backend& backend = *chosen.backend;
  if (!chosen.takes_every_call) require_offered(backend, call.name, call.subject());
  // Only after all checks that can fail on this rank alone: the numbers must stay equal on all ranks.
  Operation operation{++sequence_, limit.deadline(), options.async_op};
  const auto context = [&] {
    return ErrorContext{description_.rank, call.name, operation.sequence, description_.name, -1, {}};
  };
  if (logs(LogLevel::trace)) {
    log(LogLevel::trace, "rank " + std::to_string(description_.rank) + " of group " + description_.name +
                             " calls " + call.describe() + " #" + std::to_string(operation.sequence));
  }
  Recording recording(recorder_, call.record, operation.sequence, -1, limit, !options.async_op);
  if (is_debug_detail()) {
    const std::string described = call.describe();
    compare_calls({.name = described,
                   .statement = described + (call.splits ? "\n" + call.splits() : ""),
                   .deadline = operation.deadline},
                  context());
  }
  for (const DeviceBackend& entry : *backends) {
    if (entry.backend.get() != &backend) entry.backend->enter(operation.sequence);
  }
  const std::uint64_t span = begin_span(call, operation.sequence);
  const RecordMark& mark = recording.hand_over();
  UnseenCall by_itself{{.observer = this}, call.name, operation.sequence, span, mark};
  if (!options.async_op) operation.unseen = &by_itself;
  try {
    const Work inner = start(backend, operation);
    if (by_itself.is_taken) return {};
    if (!options.async_op && WorkSource::is_default(inner)) {  // as mostly
      report_end(span, mark, true);
      return {};
    }
    follow_on_device(inner, mark);
    if (!options.async_op && !inner.order_stream()) inner.synchronize();
    if (!options.async_op && inner.has_ended()) {
      inner.synchronize();  // throws if it has failed
      report_end(span, mark, true);
      return {};
    }
    if (options.async_op) return finish_with_context(source_after(inner), inner, context(), {span, mark});
    finish_unseen(inner, context(), {span, mark});
    return {};
  } catch (...) {
    report_end(span, mark, false);
    const std::exception_ptr error = located(std::current_exception(), context());
    fail(error);
    std::rethrow_exception(error);
  }
}

// Without call_mutex_: a receive may wait for data that another thread has yet to send.
Work GroupImpl::run_message(const OperationSpec& call, int peer, Tag tag, const MessageOptions& options,
                            bool awaited, Start start) {
  const Timeout limit = timeout_for(call.name, options.timeout);
  require_own_process(call.name);
  const HazardPointer<const Backends>::Use backends(backends_);
  const DeviceBackend& chosen = usable_backend(backends.get(), call.name, call.device);
  Backend& backend = *chosen.backend;
  if (!chosen.takes_every_call)
    require_offered(backend, call.name, subject_of_message(call.record.dtype, call.device, tag, peer));
  const Operation operation{++messages_, limit.deadline(), !awaited};
  const auto context = [&] {
    return ErrorContext{description_.rank, call.name, operation.sequence, description_.name, peer, {}};
  };
  const OperationTrace trace{begin_span(call, operation.sequence),
                             recorder_.begin(call.record, operation.sequence, peer, limit)};
  Work inner;  // keeps its error until the end
  try {
    inner = start(backend, operation);
    if (awaited && WorkSource::has_succeeded(inner)) {  // as mostly
      report_end(trace, true);
      return inner;
    }
    follow_on_device(inner, trace.mark);
    if (awaited && !inner.order_stream()) inner.synchronize();
    if (awaited && inner.has_ended()) {
      inner.synchronize();
      report_end(trace, true);
      return inner;
    }
    return finish_with_context(WorkSource::of_message(order_of(inner), inner.is_captured()), inner, context(),
                               trace);
  } catch (...) {
    report_end(trace, false);
    const std::exception_ptr error = located(std::current_exception(), context());
    fail(error);
    std::rethrow_exception(error);
  }
}

// The record of an operation that waits in a device's queue says so, until the device has come to it.
void GroupImpl::follow_on_device(const Work& inner, const RecordMark& mark) const {
  if (!WorkSource::is_queued(inner)) return;
  recorder_.put_on_device(mark, page::Record::queued);
  WorkSource::when_begun(inner,
                         [recorder = recorder_, mark] { recorder.put_on_device(mark, page::Record::begun); });
}

// The Work of `outer`. Its error names the operation, and the group is broken before the program can see the
// error.
Work GroupImpl::finish_with_context(const WorkSource& outer, const Work& inner, const ErrorContext& context,
                                    const OperationTrace& trace) {
  inner.then([this, outer, context, trace](const Work& work) {
    report_end(trace, work.is_success());
    if (const std::exception_ptr raw = work.exception()) {
      const std::exception_ptr error = located(raw, context);
      if (fail(error)) {
        outer.fail(error);
      } else {
        outer.fail_silently(error);
      }
    } else if (work.source_rank() >= 0) {
      outer.succeed_from(work.source_rank());
    } else {
      outer.succeed();
    }
  });
  return outer.work();
}

void GroupImpl::throw_if_lost() const {
  for (const std::shared_ptr<Backend>& backend : all_backends()) backend->check();
}

void GroupImpl::throw_if_lost(std::span<const int> ranks) const {
  try {
    throw_if_lost();
  } catch (const DistNetworkError& e) {
    if (std::ranges::find(ranks, e.context().peer) == ranks.end()) return;
    std::rethrow_exception(located(std::current_exception(), {}));
  }
}

std::vector<int> GroupImpl::departed() const {
  std::vector<int> ranks;
  for (const std::shared_ptr<Backend>& backend : all_backends()) {
    const std::vector<int> more = backend->departed();
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void GroupImpl::explain_errors(const ErrorContext& context, const std::function<void()>& work) const {
  try {
    work();
  } catch (const StoreError& e) {
    explain(e, context);
  } catch (const DistNetworkError&) {
    std::rethrow_exception(located(std::current_exception(), context));
  }
}

void GroupImpl::explain(const StoreError& error, const ErrorContext& context) const {
  if (error.error().kind == ErrorKind::timeout) throw DistStoreError(error.what(), context);
  explain_lost_store(error.what(), context);
}

void GroupImpl::explain_lost_store(const std::string& what_it_says, const ErrorContext& context) const {
  wait_for_root_error(deadline_after(loss_propagation_delay), [&] {
    try {
      throw_if_lost();
      const std::vector<int> gone = departed();
      if (!gone.empty()) throw DistNetworkError(left_the_group, {.peer = gone.front()});
    } catch (const DistNetworkError& e) {
      const std::string reason = e.reason() + ", and the store is lost: " + what_it_says;
      std::rethrow_exception(
          located(std::make_exception_ptr(DistNetworkError(reason, e.context())), context));
    }
  });
  throw DistStoreError(what_it_says, context);
}

// With call_mutex_ held.
void GroupImpl::compare_calls(const CallComparison::Call& call, const ErrorContext& context) {
  try {
    explain_errors(context, [&] { comparison_.compare(call); });
  } catch (const DistNetworkError& e) {
    if (!shows_call_stacks()) throw;
    throw DistNetworkError(e.reason() + "\n" + call_stack(), e.context());
  }
}

// It takes a number, since another rank may call a collective instead.
void GroupImpl::compare_call(const std::string& call, Deadline deadline, const ErrorContext& context) {
  require_own_process(context.operation.c_str());
  if (get_debug_level() != DebugLevel::detail) return;
  const std::lock_guard turn(call_mutex_);
  ++sequence_;
  compare_calls({.name = call, .statement = call, .deadline = deadline}, context);
}

void GroupImpl::monitored_barrier(std::optional<std::chrono::milliseconds> timeout, bool wait_all_ranks) {
  constexpr const char* name = "monitored_barrier";
  if (skips_as_non_member(name)) return;
  require_own_process(name);
  const Timeout limit = timeout_for(name, timeout);
  const std::lock_guard turn(barrier_mutex_);
  (void)usable_backend(name, std::nullopt);
  const WaitRecord waiting;
  const ErrorContext context{description_.rank, name, ++barriers_, description_.name, -1, {}};
  if (!keys_) throw DistError("the group has no store", context);
  ProfiledCall profiled(name, description_, 0);
  Recording recording(recorder_, {.operation = page::Operation::monitored_barrier}, context.sequence, -1,
                      limit);
  const auto name_missing = [&](std::vector<int> missing) {
    if (!wait_all_ranks) missing.resize(1);
    std::string who = describe_ranks(missing);
    who.front() = 'R';
    return who + " failed to pass monitoredBarrier in " + std::to_string(limit.length.count()) + " ms";
  };
  const std::string text = std::string(name) + "()";
  const CallComparison::Call call{.name = text, .statement = text, .deadline = limit.deadline()};
  explain_errors(context, [&] {
    if (get_debug_level() != DebugLevel::detail) return comparison_.barrier(call, name_missing);
    // The comparison of calls synchronizes all ranks already. So this is one of the compared calls, and takes
    // a number as they do: another rank may call a collective instead.
    const std::lock_guard order(call_mutex_);
    ++sequence_;
    comparison_.compare(call, name_missing);
  });
  recorder_.end(recording.hand_over(), true);
  profiled.succeed();
}

// If this rank has aborted the group, that is the reason of every error, and no peer is blamed.
std::exception_ptr GroupImpl::located(const std::exception_ptr& error, ErrorContext context) const {
  if (const std::optional<std::string> reason = aborted_here()) {
    context.peer = -1;
    return std::make_exception_ptr(DistNetworkError(*reason, context));
  }
  const int known = peer_of(error);
  const int peer = known >= 0 ? known : context.peer;
  if (peer >= 0 && static_cast<std::size_t>(peer) < description_.hosts.size()) {
    context.host = description_.hosts[static_cast<std::size_t>(peer)];
  }
  return in_context(error, context);
}

// Breaks the group. False if it was broken before: then this error follows from that one.
bool GroupImpl::fail(const std::exception_ptr& error, std::optional<std::string> aborted) {
  {
    const std::lock_guard lock(state_mutex_);
    if (first_error_) return false;
    first_error_ = error;
    is_usable_ = false;
    aborted_ = std::move(aborted);
  }
  record_loss(error);
  const std::lock_guard stay(abort_mutex_);
  for (const std::shared_ptr<Backend>& backend : all_backends()) backend->abort(message_of(error));
  return true;
}

// For the agent: which rank's loss may make this process fail.
void GroupImpl::record_loss(const std::exception_ptr& error) const {
  const page::Loss loss = loss_of(error);
  const auto peer = static_cast<std::size_t>(peer_of(error));
  if (loss == page::Loss::none || peer >= description_.ranks.size()) return;
  const ErrorContext where = context_of(error);
  const auto* const name = std::ranges::find(page::operation_names, where.operation);
  const bool known = name != page::operation_names.end();
  recorder_.record_loss(
      description_.ranks[peer], loss,
      known ? static_cast<page::Operation>(name - page::operation_names.begin()) : page::Operation::none,
      known ? where.sequence : 0);
}

void GroupImpl::abort(const std::string& reason) {
  require_own_process("abort");
  require_member(description_, "abort");
  const std::string text = "aborted: " + reason;
  fail(std::make_exception_ptr(DistError(text, {.rank = description_.rank, .group = description_.name})),
       text);
}

std::optional<std::string> GroupImpl::aborted_here() const {
  const std::lock_guard lock(state_mutex_);
  return aborted_;
}

void GroupImpl::destroy() {
  if (!own_process_.is_this()) return;
  const std::lock_guard turn(call_mutex_);
  bool has_part = false;
  {
    const std::lock_guard lock(state_mutex_);
    has_part = !std::exchange(destroyed_, true) && !first_error_;
    is_usable_ = false;
  }
  if (has_part) {
    // In the reverse order in which they were made: one may be the control plane of a later one.
    const std::vector<std::shared_ptr<Backend>> all = all_backends();
    for (auto backend = all.rbegin(); backend != all.rend(); ++backend) (*backend)->shutdown();
  }
  end_backends();
  recorder_.leave();
}

// Without call_mutex_: a collective may still run, in another thread or below the call of exit().
void GroupImpl::leave(Deadline deadline) {
  if (!own_process_.is_this()) return;
  {
    const std::lock_guard lock(state_mutex_);
    if (std::exchange(destroyed_, true)) return;
    is_usable_ = false;
  }
  for (const std::shared_ptr<Backend>& backend : all_backends()) backend->leave(deadline);
}

}  // namespace dlaunch::internal
