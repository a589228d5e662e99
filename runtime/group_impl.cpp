#include "runtime/group_impl.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/deadline.h"
#include "runtime/errors.h"

namespace dlaunch {
inline namespace v1 {

namespace {

GroupImpl::Description completed(GroupImpl::Description description) {
  if (description.ranks.empty()) {
    description.ranks.resize(static_cast<std::size_t>(description.size));
    std::iota(description.ranks.begin(), description.ranks.end(), 0);
  }
  return description;
}

}  // namespace

GroupImpl::GroupImpl(Description description, std::vector<DeviceBackend> backends,
                     std::shared_ptr<Store> keys)
    : description_(completed(std::move(description))),
      keys_(std::move(keys)),
      backends_(std::move(backends)) {}

GroupImpl::~GroupImpl() { end_backends(); }

// Operations that end only now report to fail(), which must find either a whole backend or none: so the
// backends are taken out while nobody calls them, and end without a lock held.
void GroupImpl::end_backends() {
  std::vector<DeviceBackend> ending;
  {
    const std::scoped_lock lock(abort_mutex_, state_mutex_);
    ending.swap(backends_);
  }
}

std::vector<std::shared_ptr<Backend>> GroupImpl::all_backends() const {
  const std::lock_guard lock(state_mutex_);
  std::vector<std::shared_ptr<Backend>> result;
  for (const DeviceBackend& entry : backends_) {
    if (std::ranges::find(result, entry.backend) == result.end()) result.push_back(entry.backend);
  }
  return result;
}

std::shared_ptr<Backend> GroupImpl::usable_backend(std::optional<Device> device) const {
  const std::lock_guard lock(state_mutex_);
  const ErrorContext here{.rank = description_.rank, .group = description_.name};
  if (first_error_) std::rethrow_exception(with_words(first_error_, "the group is broken: ", {}));
  if (destroyed_) throw DistError("the group was destroyed", here);
  const auto found = std::ranges::find_if(
      backends_, [&](const DeviceBackend& entry) { return !device || entry.device == device->kind; });
  if (found == backends_.end()) {
    throw DistBackendError("backend " + description_.backend + " does not work on device " +
                               to_string(device.value_or(Device{})),
                           here);
  }
  return found->backend;
}

Deadline GroupImpl::deadline_for(const char* name, std::optional<std::chrono::milliseconds> timeout) const {
  const std::chrono::milliseconds length = timeout.value_or(description_.timeout);
  if (length <= std::chrono::milliseconds(0)) refuse(name, "the timeout must be longer than 0 ms");
  return deadline_after(length);
}

Work GroupImpl::run(const char* name, const OperationOptions& options, std::optional<Device> device,
                    const Started& start) {
  const Deadline deadline = deadline_for(name, options.timeout);
  const std::lock_guard turn(call_mutex_);
  const std::shared_ptr<Backend> backend = usable_backend(device);
  // Only now, after everything that can be wrong on this rank alone: the ranks' numbers must stay the same.
  const Operation operation{++sequence_, deadline, options.async_op};
  const ErrorContext context{description_.rank, name, operation.sequence, description_.name, -1, {}};
  try {
    const Work inner = start(*backend, operation);
    if (options.async_op) return finish_with_context(inner, context);
    inner.wait();
    return {};
  } catch (...) {
    const std::exception_ptr error = located(std::current_exception(), context);
    fail(error);
    std::rethrow_exception(error);
  }
}

// Without the turn of the collectives: a receive may wait for what another thread still has to send.
Work GroupImpl::run_message(const char* name, int peer, const MessageOptions& options, Device device,
                            const Started& start) {
  const Deadline deadline = deadline_for(name, options.timeout);
  const std::shared_ptr<Backend> backend = usable_backend(device);
  Operation operation{0, deadline, true};
  {
    const std::lock_guard lock(state_mutex_);
    operation.sequence = ++messages_;
  }
  const ErrorContext context{description_.rank, name, operation.sequence, description_.name, peer, {}};
  try {
    return finish_with_context(start(*backend, operation), context);
  } catch (...) {
    const std::exception_ptr error = located(std::current_exception(), context);
    fail(error);
    std::rethrow_exception(error);
  }
}

// A Work whose error says where it happened, and which has broken the group by the time anybody sees it.
Work GroupImpl::finish_with_context(const Work& inner, const ErrorContext& context) {
  const WorkSource outer;
  inner.then([this, outer, context](const Work& work) {
    if (const std::exception_ptr raw = work.exception()) {
      const std::exception_ptr error = located(raw, context);
      fail(error);
      outer.fail(error);
    } else if (work.source_rank() >= 0) {
      outer.succeed_from(work.source_rank());
    } else {
      outer.succeed();
    }
  });
  return outer.work();
}

std::exception_ptr GroupImpl::located(const std::exception_ptr& error, ErrorContext context) const {
  const int known = peer_of(error);
  const int peer = known >= 0 ? known : context.peer;
  if (peer >= 0 && static_cast<std::size_t>(peer) < description_.hosts.size()) {
    context.host = description_.hosts[static_cast<std::size_t>(peer)];
  }
  return in_context(error, context);
}

void GroupImpl::fail(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(state_mutex_);
    if (first_error_) return;
    first_error_ = error;
  }
  const std::lock_guard stay(abort_mutex_);
  for (const std::shared_ptr<Backend>& backend : all_backends()) backend->abort(message_of(error));
}

void GroupImpl::abort(const std::string& reason) {
  require_member("abort");
  fail(std::make_exception_ptr(
      DistError("aborted: " + reason, {.rank = description_.rank, .group = description_.name})));
}

void GroupImpl::destroy() {
  const std::lock_guard turn(call_mutex_);
  bool broken = false;
  {
    const std::lock_guard lock(state_mutex_);
    broken = first_error_ != nullptr;
    destroyed_ = true;
  }
  if (!broken) {
    for (const std::shared_ptr<Backend>& backend : all_backends()) backend->shutdown();
  }
  end_backends();
}

}  // namespace v1
}  // namespace dlaunch
