#include "dlaunch/collective_backend.h"

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/all_to_all.h"
#include "runtime/collectives/barrier.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/coalesced.h"
#include "runtime/collectives/gather.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/reduce_to_root.h"
#include "runtime/deadline.h"
#include "runtime/errors.h"
#include "runtime/lanes.h"
#include "runtime/point_to_point/messenger.h"

namespace dlaunch {
inline namespace v1 {

namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

template <class Span>
std::vector<Span> bytes_of(std::span<const Tensor> tensors) {
  std::vector<Span> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(tensor.bytes());
  return result;
}

// What an operation works on.
Lanes::Memory memory_of(std::span<const Tensor> some, std::span<const Tensor> others = {}) {
  Lanes::Memory memory;
  memory.reserve(some.size() + others.size());
  for (const Tensor& tensor : some) memory.push_back(tensor.bytes());
  for (const Tensor& tensor : others) memory.push_back(tensor.bytes());
  return memory;
}
Lanes::Memory memory_of(const Tensor& tensor, std::span<const Tensor> others = {}) {
  return memory_of({&tensor, 1}, others);
}

// A call that is made of parts, whose single sizes the ranks must agree on.
Call call_of_parts(CallKind kind, DType dtype, std::span<const Tensor> parts) {
  Call call{.kind = kind, .dtype = dtype};
  // FNV-1a over the sizes, one after the other.
  call.layout = 0xcbf29ce484222325U;
  for (const Tensor& part : parts) {
    call.count += part.numel();
    call.layout = (call.layout ^ part.numel()) * 0x100000001b3U;
  }
  return call;
}

}  // namespace

class CollectiveBackend::Impl {
 public:
  explicit Impl(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  ~Impl() {
    if (!shut_down_) transport_->abort("the group was destroyed");
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // `body` gets the call's Exchange and does the work, on nothing but `memory`; none: with nothing else at
  // the same time.
  template <class Body>
  Work start(const Call& call, const Operation& operation, std::optional<Lanes::Memory> memory, Body body) {
    auto attempt = [this, call, sequence = operation.sequence, deadline = operation.deadline,
                    body = std::move(body)](int lane) -> std::exception_ptr {
      try {
        Exchange exchange(*transport_, transport_->line(lane), workspaces_[static_cast<std::size_t>(lane)],
                          call, sequence, deadline);
        body(exchange);
        return nullptr;
      } catch (...) {
        // The others cannot complete this call without us: tell them now rather than let them wait.
        std::exception_ptr error = std::current_exception();
        transport_->abort(to_string(call) + " failed there: " + message_of(error));
        return error;
      }
    };
    if (!operation.async) {
      std::exception_ptr error;
      lanes_.run(operation.sequence, [&](int lane) { error = attempt(lane); });
      if (error) std::rethrow_exception(error);
      return {};
    }
    const WorkSource source;
    const auto error = std::make_shared<std::exception_ptr>();
    lanes_.post({operation.sequence, std::move(memory),
                 [error, attempt = std::move(attempt)](int lane) { *error = attempt(lane); },
                 [error, source] {
                   if (*error) {
                     source.fail(*error);
                   } else {
                     source.succeed();
                   }
                 }});
    return source.work();
  }

  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] Messenger& messenger() { return messenger_; }

  void shutdown() noexcept {
    // Enough for what has been sent to leave over a slow line; peers that no longer read are not waited for.
    constexpr auto limit = std::chrono::seconds(5);
    lanes_.drain();
    messenger_.drain(deadline_after(limit));
    transport_->shutdown(deadline_after(limit));
    shut_down_ = true;
  }

 private:
  std::unique_ptr<Transport> transport_;
  std::array<Workspace, Transport::lines> workspaces_;
  bool shut_down_ = false;
  Messenger messenger_{*transport_};
  Lanes lanes_{Transport::lines};  // last: its threads use the others
};

CollectiveBackend::CollectiveBackend(std::unique_ptr<Transport> transport)
    : impl_(std::make_unique<Impl>(std::move(transport))) {}

CollectiveBackend::~CollectiveBackend() = default;

Work CollectiveBackend::all_reduce(const Tensor& tensor, const Reduction& reduction,
                                   const Operation& operation) {
  const Call call{
      .kind = CallKind::all_reduce, .dtype = tensor.dtype(), .op = reduction.op, .count = tensor.numel()};
  return impl_->start(call, operation, memory_of(tensor), [tensor, reduction](Exchange& exchange) {
    dlaunch::all_reduce(exchange, tensor.bytes(), tensor.dtype(), reduction);
  });
}

Work CollectiveBackend::broadcast(const Tensor& tensor, int src, const Operation& operation) {
  const Call call{.kind = CallKind::broadcast, .dtype = tensor.dtype(), .root = src, .count = tensor.numel()};
  return impl_->start(call, operation, memory_of(tensor), [tensor, src](Exchange& exchange) {
    dlaunch::broadcast(exchange, tensor.bytes(), src);
  });
}

Work CollectiveBackend::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                                   const Operation& operation) {
  const Call call = call_of_parts(CallKind::all_gather, input.dtype(), outputs);
  return impl_->start(call, operation, memory_of(input, outputs),
                      [places = bytes_of<Bytes>(outputs), input](Exchange& exchange) {
                        dlaunch::all_gather(exchange, places, input.bytes());
                      });
}

Work CollectiveBackend::barrier(const Operation& operation) {
  return impl_->start(Call{.kind = CallKind::barrier}, operation, std::nullopt,
                      [](Exchange& exchange) { dlaunch::barrier(exchange); });
}

Work CollectiveBackend::reduce(const Tensor& tensor, int dst, const Reduction& reduction,
                               const Operation& operation) {
  const Call call{.kind = CallKind::reduce,
                  .dtype = tensor.dtype(),
                  .op = reduction.op,
                  .root = dst,
                  .count = tensor.numel()};
  return impl_->start(call, operation, memory_of(tensor), [tensor, dst, reduction](Exchange& exchange) {
    reduce_to_root(exchange, tensor.bytes(), tensor.dtype(), reduction, dst);
  });
}

Work CollectiveBackend::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                               const Operation& operation) {
  const Call call{.kind = CallKind::gather, .dtype = input.dtype(), .root = dst, .count = input.numel()};
  return impl_->start(call, operation, memory_of(input, outputs),
                      [places = bytes_of<Bytes>(outputs), input, dst](Exchange& exchange) {
                        dlaunch::gather(exchange, places, input.bytes(), dst);
                      });
}

Work CollectiveBackend::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                                const Operation& operation) {
  const Call call{.kind = CallKind::scatter, .dtype = output.dtype(), .root = src, .count = output.numel()};
  return impl_->start(call, operation, memory_of(output, inputs),
                      [output, places = bytes_of<ConstBytes>(inputs), src](Exchange& exchange) {
                        dlaunch::scatter(exchange, output.bytes(), places, src);
                      });
}

Work CollectiveBackend::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                                       const Reduction& reduction, const Operation& operation) {
  Call call = call_of_parts(CallKind::reduce_scatter, output.dtype(), inputs);
  call.op = reduction.op;
  return impl_->start(call, operation, memory_of(output, inputs),
                      [output, places = bytes_of<ConstBytes>(inputs), reduction](Exchange& exchange) {
                        dlaunch::reduce_scatter(exchange, output.bytes(), places, output.dtype(), reduction);
                      });
}

Work CollectiveBackend::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                   const Operation& operation) {
  const Call call{.kind = CallKind::all_to_all, .dtype = inputs.front().dtype()};
  return impl_->start(call, operation, memory_of(outputs, inputs),
                      [to = bytes_of<Bytes>(outputs), from = bytes_of<ConstBytes>(inputs)](
                          Exchange& exchange) { dlaunch::all_to_all(exchange, to, from); });
}

Work CollectiveBackend::all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                                             const Operation& operation) {
  const DType dtype = tensors.front().dtype();
  Call call = call_of_parts(CallKind::all_reduce_coalesced, dtype, tensors);
  call.op = reduction.op;
  return impl_->start(call, operation, memory_of(tensors),
                      [places = bytes_of<Bytes>(tensors), dtype, reduction](Exchange& exchange) {
                        dlaunch::all_reduce_coalesced(exchange, places, dtype, reduction);
                      });
}

Work CollectiveBackend::send(const Tensor& tensor, int dst, std::uint32_t tag, const Operation& operation) {
  return impl_->messenger().send(tensor, dst, tag, operation.deadline);
}

Work CollectiveBackend::recv(const Tensor& tensor, int src, std::uint32_t tag, const Operation& operation) {
  return impl_->messenger().recv(tensor, src, tag, operation.deadline);
}

void CollectiveBackend::check() { impl_->transport().check(); }
void CollectiveBackend::abort(const std::string& reason) noexcept { impl_->transport().abort(reason); }
void CollectiveBackend::shutdown() noexcept { impl_->shutdown(); }

}  // namespace v1
}  // namespace dlaunch
