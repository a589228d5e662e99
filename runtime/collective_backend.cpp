#include "dlaunch/collective_backend.h"

#include <chrono>
#include <exception>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/barrier.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/deadline.h"
#include "runtime/errors.h"
#include "runtime/work_queue.h"

namespace dlaunch {
inline namespace v1 {

class CollectiveBackend::Impl {
 public:
  explicit Impl(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  ~Impl() {
    if (!shut_down_) transport_->abort("the group was destroyed");
  }

  // `body` gets the call's Exchange and does the work.
  template <class Body>
  Work start(const Call& call, const Operation& operation, Body body) {
    const auto attempt = [this, call, sequence = operation.sequence, deadline = operation.deadline,
                          body = std::move(body)]() -> std::exception_ptr {
      try {
        Exchange exchange(*transport_, workspace_, call, sequence, deadline);
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
      queue_.run([&] { error = attempt(); });
      if (error) std::rethrow_exception(error);
      return {};
    }
    const WorkSource source;
    queue_.post([source, attempt] {
      if (const std::exception_ptr error = attempt()) {
        source.fail(error);
      } else {
        source.succeed();
      }
    });
    return source.work();
  }

  void abort(const std::string& reason) noexcept { transport_->abort(reason); }

  void shutdown() noexcept {
    // Enough for what has been sent to leave over a slow line; peers that no longer read are not waited for.
    constexpr auto limit = std::chrono::seconds(5);
    queue_.drain();
    transport_->shutdown(deadline_after(limit));
    shut_down_ = true;
  }

 private:
  std::unique_ptr<Transport> transport_;
  Workspace workspace_{Exchange::block_size};
  bool shut_down_ = false;
  WorkQueue queue_;  // last: its thread uses the others
};

CollectiveBackend::CollectiveBackend(std::unique_ptr<Transport> transport)
    : impl_(std::make_unique<Impl>(std::move(transport))) {}

CollectiveBackend::~CollectiveBackend() = default;

Work CollectiveBackend::all_reduce(const Tensor& tensor, const Reduction& reduction,
                                   const Operation& operation) {
  const Call call{
      .kind = CallKind::all_reduce, .dtype = tensor.dtype(), .op = reduction.op, .count = tensor.numel()};
  return impl_->start(call, operation, [tensor, reduction](Exchange& exchange) {
    dlaunch::all_reduce(exchange, tensor.bytes(), tensor.dtype(), reduction);
  });
}

Work CollectiveBackend::broadcast(const Tensor& tensor, int src, const Operation& operation) {
  const Call call{.kind = CallKind::broadcast, .dtype = tensor.dtype(), .src = src, .count = tensor.numel()};
  return impl_->start(call, operation, [tensor, src](Exchange& exchange) {
    dlaunch::broadcast(exchange, tensor.bytes(), src);
  });
}

Work CollectiveBackend::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                                   const Operation& operation) {
  Call call{.kind = CallKind::all_gather, .dtype = input.dtype()};
  std::vector<std::span<std::byte>> places;
  places.reserve(outputs.size());
  // FNV-1a over the sizes, one after the other.
  call.layout = 0xcbf29ce484222325U;
  for (const Tensor& output : outputs) {
    call.count += output.numel();
    call.layout = (call.layout ^ output.numel()) * 0x100000001b3U;
    places.push_back(output.bytes());
  }
  return impl_->start(call, operation, [places = std::move(places), input](Exchange& exchange) {
    dlaunch::all_gather(exchange, places, input.bytes());
  });
}

Work CollectiveBackend::barrier(const Operation& operation) {
  return impl_->start(Call{.kind = CallKind::barrier}, operation,
                      [](Exchange& exchange) { dlaunch::barrier(exchange); });
}

void CollectiveBackend::abort(const std::string& reason) noexcept { impl_->abort(reason); }
void CollectiveBackend::shutdown() noexcept { impl_->shutdown(); }

}  // namespace v1
}  // namespace dlaunch
