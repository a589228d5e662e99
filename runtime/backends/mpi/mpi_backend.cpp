#include "runtime/backends/mpi/mpi_backend.h"

#include <chrono>

#include "dlaunch/error.h"
#include "runtime/backends/mpi/mpi_collectives.h"
#include "runtime/backends/mpi/mpi_devices.h"
#include "runtime/backends/mpi/mpi_types.h"
#include "runtime/base/deadline.h"

namespace dlaunch::internal {

namespace {

// What an operation keeps of an argument after its call has returned.
template <class T>
T kept(const T& argument) {
  return argument;
}
std::vector<Tensor> kept(std::span<const Tensor> tensors) { return {tensors.begin(), tensors.end()}; }

std::size_t bytes_of(std::span<const Tensor> tensors) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace

MpiBackend::~MpiBackend() {
  if (!shut_down_) group_.break_up("the group was destroyed");
}

// `body(call, arguments...)`, on this thread or on the queue's.
template <class Body, class... Arguments>
Work MpiBackend::start(const Operation& operation, std::size_t bytes, Body body,
                       const Arguments&... arguments) {
  const auto attempt = [this, deadline = operation.deadline, bytes,
                        body](const auto&... all) -> std::exception_ptr {
    try {
      MpiRequests call(group_, deadline, bytes);
      body(call, all...);
      return nullptr;
    } catch (const std::exception& e) {
      std::exception_ptr error = std::current_exception();
      group_.break_up(e.what());  // the others cannot complete it without this rank
      return error;
    }
  };
  if (!operation.async) {
    queue_.drain_before();
    if (const std::exception_ptr error = attempt(arguments...)) std::rethrow_exception(error);
    return {};
  }
  const WorkSource source;
  queue_.post({.finish = [source, attempt, ... all = kept(arguments)] {
    if (const std::exception_ptr error = attempt(all...)) {
      source.fail(error);
    } else {
      source.succeed();
    }
  }});
  return source.work();
}

Work MpiBackend::all_reduce(const Tensor& tensor, const Reduction& reduction, const Operation& operation) {
  return start(operation, tensor.nbytes(), mpi_all_reduce, tensor, reduction);
}

Work MpiBackend::broadcast(const Tensor& tensor, int src, const Operation& operation) {
  return start(operation, tensor.nbytes(), mpi_broadcast, tensor, src);
}

Work MpiBackend::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                            const Operation& operation) {
  return start(operation, bytes_of(outputs), mpi_all_gather, outputs, input);
}

Work MpiBackend::barrier(const Operation& operation) { return start(operation, 0, mpi_barrier); }

Work MpiBackend::reduce(const Tensor& tensor, int dst, const Reduction& reduction,
                        const Operation& operation) {
  return start(operation, tensor.nbytes(), mpi_reduce, tensor, dst, reduction);
}

Work MpiBackend::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                        const Operation& operation) {
  return start(operation, input.nbytes() + bytes_of(outputs), mpi_gather, outputs, input, dst);
}

Work MpiBackend::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                         const Operation& operation) {
  return start(operation, output.nbytes() + bytes_of(inputs), mpi_scatter, output, inputs, src);
}

Work MpiBackend::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                                const Reduction& reduction, const Operation& operation) {
  return start(operation, bytes_of(inputs), mpi_reduce_scatter, output, inputs, reduction);
}

Work MpiBackend::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                            const Operation& operation) {
  return start(operation, bytes_of(inputs) + bytes_of(outputs), mpi_all_to_all, outputs, inputs);
}

Work MpiBackend::all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                                      const Operation& operation) {
  const auto all = [](MpiRequests& call, std::span<const Tensor> each, const Reduction& how) {
    for (const Tensor& tensor : each) mpi_all_reduce(call, tensor, how);
  };
  return start(operation, bytes_of(tensors), all, tensors, reduction);
}

Work MpiBackend::send(const Tensor& tensor, int dst, Tag tag, const Operation& operation) {
  return messages_.send(tensor, dst, tag, operation);
}

Work MpiBackend::recv(const Tensor& tensor, int src, Tag tag, const Operation& operation) {
  return messages_.recv(tensor, src, tag, operation);
}

bool MpiBackend::takes_device_memory(const CallSubject& call) {
  if (!mpi_takes_device_memory()) return false;
  return !call.op || (mpi_reduces_device_memory && is_of_mpi_alone(*call.dtype, *call.op));
}

void MpiBackend::check() { group_.check(); }
std::vector<int> MpiBackend::departed() { return group_.departed(); }
void MpiBackend::abort(const std::string& reason) noexcept { group_.break_up(reason); }

void MpiBackend::shutdown() noexcept {
  constexpr auto limit = std::chrono::seconds(5);
  const Deadline deadline = deadline_after(limit);
  if (!queue_.drain(deadline) || !messages_.drain(deadline)) {
    group_.break_up("the group was destroyed before an operation had finished");
  }
  group_.say_goodbye();
  shut_down_ = true;
}

}  // namespace dlaunch::internal
