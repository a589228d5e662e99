#include "runtime/group_impl.h"

#include <algorithm>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/deadline.h"
#include "runtime/errors.h"
#include "runtime/reduce.h"

namespace dlaunch {
inline namespace v1 {

GroupImpl::GroupImpl(Description description, std::vector<DeviceBackend> backends)
    : description_(std::move(description)), backends_(std::move(backends)) {}

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

std::vector<Backend*> GroupImpl::all_backends() const {
  const std::lock_guard lock(state_mutex_);
  std::vector<Backend*> result;
  for (const DeviceBackend& entry : backends_) {
    if (std::ranges::find(result, entry.backend.get()) == result.end()) result.push_back(entry.backend.get());
  }
  return result;
}

Backend& GroupImpl::usable_backend(std::optional<Device> device) const {
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
  return *found->backend;
}

// One operation, from the number to the result. `start` gets the backend and the operation.
template <class Start>
Work GroupImpl::run(const char* name, const OperationOptions& options, std::optional<Device> device,
                    const Start& start) {
  const std::chrono::milliseconds timeout = options.timeout.value_or(description_.timeout);
  if (timeout <= std::chrono::milliseconds(0)) refuse(name, "the timeout must be longer than 0 ms");
  const Deadline deadline = deadline_after(timeout);

  const std::lock_guard turn(call_mutex_);
  Backend& backend = usable_backend(device);
  // Only now, after everything that can be wrong on this rank alone: the ranks' numbers must stay the same.
  const Operation operation{++sequence_, deadline, options.async_op};
  const ErrorContext context{description_.rank, name, operation.sequence, description_.name, -1};
  try {
    const Work inner = start(backend, operation);
    if (!options.async_op) {
      inner.wait();
      return {};
    }
    const WorkSource outer;
    inner.then([this, outer, context](const Work& work) {
      if (const std::exception_ptr raw = work.exception()) {
        const std::exception_ptr error = in_context(raw, context);
        fail(error);
        outer.fail(error);
      } else {
        outer.succeed();
      }
    });
    return outer.work();
  } catch (...) {
    const std::exception_ptr error = in_context(std::current_exception(), context);
    fail(error);
    std::rethrow_exception(error);
  }
}

void GroupImpl::fail(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(state_mutex_);
    if (first_error_) return;
    first_error_ = error;
  }
  const std::lock_guard stay(abort_mutex_);
  for (Backend* const backend : all_backends()) backend->abort(message_of(error));
}

void GroupImpl::abort(const std::string& reason) {
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
    for (Backend* const backend : all_backends()) backend->shutdown();
  }
  end_backends();
}

void GroupImpl::refuse(const char* operation, const std::string& reason) const {
  throw DistError(reason, {.rank = description_.rank, .operation = operation, .group = description_.name});
}

void GroupImpl::require_writable(const char* operation, const Tensor& tensor) const {
  if (tensor.read_only() && tensor.numel() > 0)
    refuse(operation, "the tensor to write to is a view of const memory");
}

void GroupImpl::require_same_kind(const char* operation, const Tensor& output, const Tensor& input) const {
  if (output.dtype() != input.dtype() || output.device() != input.device()) {
    refuse(operation,
           "output and input differ in dtype or device: " + output.to_string() + " and " + input.to_string());
  }
}

Work GroupImpl::all_reduce(const Tensor& tensor, ReduceOp op, const OperationOptions& options) {
  constexpr const char* name = "all_reduce";
  require_writable(name, tensor);
  if (const auto why = why_not_allowed(tensor.dtype(), op)) refuse(name, *why);
  const Reduction reduction{op, options.premul_factor};
  return run(name, options, tensor.device(), [&](Backend& backend, const Operation& operation) {
    return backend.all_reduce(tensor, reduction, operation);
  });
}

Work GroupImpl::broadcast(const Tensor& tensor, int src, const OperationOptions& options) {
  constexpr const char* name = "broadcast";
  if (src < 0 || src >= description_.size) {
    refuse(name,
           "src " + std::to_string(src) + " is no rank of a group of " + std::to_string(description_.size));
  }
  if (src != description_.rank) require_writable(name, tensor);
  return run(name, options, tensor.device(), [&](Backend& backend, const Operation& operation) {
    return backend.broadcast(tensor, src, operation);
  });
}

Work GroupImpl::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                           const OperationOptions& options) {
  constexpr const char* name = "all_gather";
  if (outputs.size() != static_cast<std::size_t>(description_.size)) {
    refuse(name,
           std::to_string(outputs.size()) + " outputs for " + std::to_string(description_.size) + " ranks");
  }
  for (const Tensor& output : outputs) {
    require_writable(name, output);
    require_same_kind(name, output, input);
  }
  const Tensor& own = outputs[static_cast<std::size_t>(description_.rank)];
  if (own.numel() != input.numel()) {
    refuse(name, "the input has " + std::to_string(input.numel()) + " elements, the output for this rank " +
                     std::to_string(own.numel()));
  }
  return run(name, options, input.device(), [&](Backend& backend, const Operation& operation) {
    return backend.all_gather(outputs, input, operation);
  });
}

Work GroupImpl::all_gather_into_tensor(const Tensor& output, const Tensor& input,
                                       const OperationOptions& options) {
  constexpr const char* name = "all_gather_into_tensor";
  require_writable(name, output);
  require_same_kind(name, output, input);
  const std::size_t size = static_cast<std::size_t>(description_.size);
  if (output.numel() != size * input.numel()) {
    refuse(name, "the output has " + std::to_string(output.numel()) + " elements; " + std::to_string(size) +
                     " ranks with " + std::to_string(input.numel()) + " each need " +
                     std::to_string(size * input.numel()));
  }
  std::vector<Tensor> parts;
  parts.reserve(size);
  const std::int64_t extent = static_cast<std::int64_t>(input.numel());
  for (std::size_t i = 0; i < size; ++i) {
    std::byte* const begin = static_cast<std::byte*>(output.data()) + i * input.nbytes();
    parts.emplace_back(static_cast<void*>(begin), input.dtype(), std::span(&extent, 1), output.device());
  }
  return run(name, options, input.device(), [&](Backend& backend, const Operation& operation) {
    return backend.all_gather(parts, input, operation);
  });
}

Work GroupImpl::barrier(const OperationOptions& options) {
  return run("barrier", options, std::nullopt,
             [](Backend& backend, const Operation& operation) { return backend.barrier(operation); });
}

}  // namespace v1
}  // namespace dlaunch
