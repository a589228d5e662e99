#include "runtime/backends/mpi/mpi_backend.h"

#include <chrono>

#include "dlaunch/error.h"
#include "runtime/backends/mpi/mpi_collectives.h"
#include "runtime/base/deadline.h"

namespace dlaunch::internal {

namespace {

using Tensors = std::vector<Tensor>;

Tensors copied(std::span<const Tensor> tensors) { return {tensors.begin(), tensors.end()}; }

std::size_t bytes_of(std::span<const Tensor> tensors) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace

MpiBackend::~MpiBackend() {
  if (!shut_down_) group_.break_up("the group was destroyed");
}

template <class Body>
Work MpiBackend::start(const Operation& operation, std::size_t bytes, Body body) {
  auto attempt = [this, deadline = operation.deadline, bytes,
                  body = std::move(body)]() -> std::exception_ptr {
    try {
      MpiRequests call(group_, deadline, bytes);
      body(call);
      return nullptr;
    } catch (const std::exception& e) {
      std::exception_ptr error = std::current_exception();
      group_.break_up(e.what());  // the others cannot complete it without this rank
      return error;
    }
  };
  if (!operation.async) {
    std::exception_ptr error;
    queue_.run([&] { error = attempt(); });
    if (error) std::rethrow_exception(error);
    return {};
  }
  const WorkSource source;
  queue_.post({.finish = [source, attempt = std::move(attempt)] {
    if (const std::exception_ptr error = attempt()) {
      source.fail(error);
    } else {
      source.succeed();
    }
  }});
  return source.work();
}

Work MpiBackend::all_reduce(const Tensor& tensor, const Reduction& reduction, const Operation& operation) {
  return start(operation, tensor.nbytes(),
               [tensor, reduction](MpiRequests& call) { mpi_all_reduce(call, tensor, reduction); });
}

Work MpiBackend::broadcast(const Tensor& tensor, int src, const Operation& operation) {
  return start(operation, tensor.nbytes(),
               [tensor, src](MpiRequests& call) { mpi_broadcast(call, tensor, src); });
}

Work MpiBackend::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                            const Operation& operation) {
  return start(operation, bytes_of(outputs),
               [to = copied(outputs), input](MpiRequests& call) { mpi_all_gather(call, to, input); });
}

Work MpiBackend::barrier(const Operation& operation) {
  return start(operation, 0, [](MpiRequests& call) { mpi_barrier(call); });
}

Work MpiBackend::reduce(const Tensor& tensor, int dst, const Reduction& reduction,
                        const Operation& operation) {
  return start(operation, tensor.nbytes(),
               [tensor, dst, reduction](MpiRequests& call) { mpi_reduce(call, tensor, dst, reduction); });
}

Work MpiBackend::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                        const Operation& operation) {
  return start(operation, input.nbytes() + bytes_of(outputs),
               [to = copied(outputs), input, dst](MpiRequests& call) { mpi_gather(call, to, input, dst); });
}

Work MpiBackend::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                         const Operation& operation) {
  return start(
      operation, output.nbytes() + bytes_of(inputs),
      [output, from = copied(inputs), src](MpiRequests& call) { mpi_scatter(call, output, from, src); });
}

Work MpiBackend::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                                const Reduction& reduction, const Operation& operation) {
  return start(operation, bytes_of(inputs), [output, from = copied(inputs), reduction](MpiRequests& call) {
    mpi_reduce_scatter(call, output, from, reduction);
  });
}

Work MpiBackend::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                            const Operation& operation) {
  return start(
      operation, bytes_of(inputs) + bytes_of(outputs),
      [to = copied(outputs), from = copied(inputs)](MpiRequests& call) { mpi_all_to_all(call, to, from); });
}

Work MpiBackend::all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                                      const Operation& operation) {
  return start(operation, bytes_of(tensors), [all = copied(tensors), reduction](MpiRequests& call) {
    for (const Tensor& tensor : all) mpi_all_reduce(call, tensor, reduction);
  });
}

Work MpiBackend::send(const Tensor& tensor, int dst, Tag tag, const Operation& operation) {
  return messages_.send(tensor, dst, tag, operation);
}

Work MpiBackend::recv(const Tensor& tensor, int src, Tag tag, const Operation& operation) {
  return messages_.recv(tensor, src, tag, operation);
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
