#include "dlaunch/collective_backend.h"

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/backend/operation_queue.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/short_array.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/all_to_all.h"
#include "runtime/collectives/barrier.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/coalesced.h"
#include "runtime/collectives/gather.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/reduce_to_root.h"
#include "runtime/hierarchical_collectives/hierarchical_call.h"
#include "runtime/point_to_point/memory_messenger.h"
#include "runtime/point_to_point/messenger.h"
#include "runtime/reduce/integer_avg.h"
#include "runtime/shared_collectives/shared_call.h"
#include "runtime/shared_memory/group_memory.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

template <class Span>
ShortArray<Span> bytes_of(std::span<const Tensor> tensors) {
  return {tensors.size(), [&](std::size_t i) { return Span(tensors[i].bytes()); }};
}

// A call with several parts; the ranks must agree on the size of each part.
CollectiveFingerprint fingerprint_of_parts(CollectiveKind kind, DType dtype, std::span<const Tensor> parts) {
  CollectiveFingerprint fingerprint{.kind = kind, .dtype = dtype};
  // FNV-1a over the sizes, one after the other.
  fingerprint.layout = 0xcbf29ce484222325U;
  for (const Tensor& part : parts) {
    fingerprint.count += part.numel();
    fingerprint.layout = (fingerprint.layout ^ part.numel()) * 0x100000001b3U;
  }
  return fingerprint;
}

std::uint64_t number_of(const Operation& operation) {
  return call_number(operation.sequence, operation.part);
}

std::string describe(const Transport::ProgressReport& progress, int size) {
  const std::string all = " of " + std::to_string(size);
  if (progress.stragglers.empty())
    return "no answer from " + describe_ranks(progress.unresponsive) + all + " after the deadline";
  std::string text =
      "not all ranks came before the deadline; missing: " + describe_ranks(progress.stragglers) + all;
  if (!progress.unresponsive.empty()) text += "; no answer from " + describe_ranks(progress.unresponsive);
  return text;
}

}  // namespace

class CollectiveBackend::Impl {
 public:
  explicit Impl(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)), messages_(*transport_) {}

  ~Impl() {
    if (!shut_down_) transport_->abort("the group was destroyed");
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // `body` does the work, with the call's Exchange or, among ranks that share memory, with its SharedCall, or
  // its HierarchicalCall if only some of them do, and with `tensors`, which an asynchronous call copies.
  template <class Body, class... Tensors>
  Work start(const CollectiveFingerprint& fingerprint, const Operation& operation, const Body& body,
             const Tensors&... tensors) {
    transport_->enter(operation.sequence);
    if (!operation.async) {
      queue_.drain_before();
      const std::exception_ptr error =
          error_of(fingerprint, operation, [&] { run(fingerprint, operation, body, tensors...); });
      if (error) std::rethrow_exception(error);
      return {};
    }
    const WorkSource source;
    queue_.post({.finish = [this, source, fingerprint, operation, body, tensors...] {
      complete(source,
               error_of(fingerprint, operation, [&] { run(fingerprint, operation, body, tensors...); }));
    }});
    return source.work();
  }

  // An asynchronous call that begins early. REQUIRES: as ShortAllReduce.
  //
  // A rank that waits for room in an eager channel must already have finished everything that it has begun. A
  // channel may hold two parts of each call that has begun, then a header by which each earlier call has
  // announced its message, and messages whose release is not reported yet.
  Work start_short_all_reduce(const CollectiveFingerprint& fingerprint, const Operation& operation,
                              const Tensor& tensor, const Reduction& reduction) {
    struct Running {
      Running(Impl& impl, const CollectiveFingerprint& its_call, const Operation& its_operation)
          : fingerprint(its_call),
            operation(its_operation),
            exchange(impl.messages_, impl.workspace_, fingerprint, number_of(operation), operation.deadline) {
      }
      const CollectiveFingerprint fingerprint;
      const Operation operation;
      Exchange exchange;
      std::optional<ShortAllReduce> all_reduce;
      std::exception_ptr error;
    };
    static_assert(2 * OperationQueue::begun_at_once + (OperationQueue::begun_at_once - 1) +
                      (EagerChannel::max_unreceived / 2 - 1) <=
                  EagerChannel::max_unreceived);
    transport_->enter(operation.sequence);
    const WorkSource source;
    const auto running = std::make_shared<Running>(*this, fingerprint, operation);
    queue_.post({.begin =
                     [this, running, tensor, reduction] {
                       running->error = error_of(running->fingerprint, running->operation, [&] {
                         running->all_reduce.emplace(running->exchange, tensor.bytes(), tensor.dtype(),
                                                     reduction, next_early_area());
                         running->all_reduce->begin();
                       });
                     },
                 .finish =
                     [this, running, source] {
                       if (!running->error) {
                         running->error = error_of(running->fingerprint, running->operation,
                                                   [&] { running->all_reduce->finish(); });
                       }
                       running->all_reduce.reset();  // releases the memory, also after an error
                       complete(source, running->error);
                     },
                 .memory = {tensor.bytes()}});
    return source.work();
  }

  [[nodiscard]] Transport& transport() { return *transport_; }
  // The peer that this rank waited for may itself have waited: the error names the ranks that have not come.
  std::exception_ptr explain_delay(std::uint64_t sequence, const std::exception_ptr& error) {
    try {
      const Transport::ProgressReport progress = transport_->query_progress(sequence);
      transport_->check();  // another rank may know the cause
      const std::vector<int>& culprits =
          progress.stragglers.empty() ? progress.unresponsive : progress.stragglers;
      if (culprits.empty()) return error;
      const std::string reason = describe(progress, transport_->size());
      transport_->abort_for(culprits.front(), reason);
      return std::make_exception_ptr(DistNetworkError(reason, {.peer = culprits.front()}));
    } catch (const DistNetworkError&) {
      return std::current_exception();
    }
  }

  // Null: this rank exchanges messages with all others.
  [[nodiscard]] GroupMemory* shared_memory() {
    GroupMemory* const memory = transport_->shared_memory();
    if (memory != nullptr) memory->set_on_mismatch(throw_other_call);
    return memory;
  }
  // No two ranks share memory.
  [[nodiscard]] bool only_messages() {
    return transport_->shared_memory() == nullptr && transport_->hosts() == nullptr;
  }
  [[nodiscard]] Messenger& messenger() { return messenger_; }
  // Of messages to and from that rank (any_source: from all that share memory). Null: they go through the
  // messenger.
  [[nodiscard]] MemoryMessenger* memory_messenger(int peer) {
    MessageRings* const rings = transport_->message_rings();
    if (rings == nullptr || (peer >= 0 && !rings->is_member(peer))) return nullptr;
    std::call_once(messages_begun_, [&] { memory_messenger_.emplace(*transport_, *rings); });
    return memory_messenger_ ? &*memory_messenger_ : nullptr;
  }
  // Whether a message from any rank may come through either messenger.
  [[nodiscard]] bool has_both_messengers() {
    return transport_->hosts() != nullptr && transport_->message_rings() != nullptr;
  }
  Work recv_from_any(const Tensor& tensor, Tag tag, Deadline deadline) {
    const WorkSource source;
    const PostedReceive receive{tensor, any_source, tag, deadline, source, std::make_shared<SharedReceive>()};
    if (MemoryMessenger* const memory = memory_messenger(any_source)) memory->post(receive);
    try {
      if (!receive.shared->is_taken()) messenger_.post(receive);
    } catch (...) {
      // Otherwise the other messenger ends it, and its memory is in use until then.
      if (receive.take()) throw;
    }
    return source.work();
  }

  void shutdown() noexcept {
    // Enough for what was sent to leave over a slow link; peers that no longer read are not waited for.
    constexpr auto limit = std::chrono::seconds(5);
    const Deadline deadline = deadline_after(limit);
    if (!queue_.drain(deadline)) {
      transport_->abort("the group was destroyed before an operation had finished");
      queue_.drain();  // queued operations have failed by now
    }
    messenger_.drain(deadline);
    std::call_once(messages_begun_, [] {});  // none begins any more
    if (memory_messenger_) memory_messenger_->drain(deadline);
    transport_->shutdown(deadline_after(limit));
    shut_down_ = true;
  }

  void leave(Deadline deadline) noexcept {
    messenger_.flush(deadline);
    std::call_once(messages_begun_, [] {});  // none begins any more
    if (memory_messenger_) memory_messenger_->flush(deadline);
    transport_->shutdown(deadline);
  }

 private:
  template <class Body, class... Tensors>
  void run(const CollectiveFingerprint& fingerprint, const Operation& operation, const Body& body,
           const Tensors&... tensors) {
    GroupMemory* const memory = shared_memory();
    if (const HostMap* const hosts = transport_->hosts()) {
      const HierarchicalGroup group{*hosts, *transport_, memory, workspace_, orders_};
      HierarchicalCall call(group, fingerprint, number_of(operation), operation.deadline);
      body(call, tensors...);
    } else if (memory != nullptr) {
      SharedCall call(*memory, workspace_, orders_, fingerprint, operation.deadline);
      body(call, tensors...);
    } else {
      Exchange exchange(messages_, workspace_, fingerprint, number_of(operation), operation.deadline);
      body(exchange, tensors...);
    }
  }

  // The exception of `part` of a call; null if it succeeds.
  template <class Part>
  std::exception_ptr error_of(const CollectiveFingerprint& fingerprint, const Operation& operation,
                              const Part& part) {
    try {
      part();
      return nullptr;
    } catch (...) {
      return give_up(fingerprint, operation, std::current_exception());
    }
  }

  // The others cannot complete this call without this rank: notifies them at once. Returns the error to
  // report.
  std::exception_ptr give_up(const CollectiveFingerprint& fingerprint, const Operation& operation,
                             std::exception_ptr error) {
    if (const int departed = departed_peer(error); departed >= 0) {
      transport_->abort_for(departed, reason_of(error));
      return error;
    }
    if (has_passed(operation.deadline)) error = explain_delay(operation.sequence, error);
    transport_->abort(to_string(fingerprint) + " failed there: " + message_of(error));
    return with_own_call(error, fingerprint);
  }

  // A peer that gave up because the calls differ reports its own call and another rank's. With this one as
  // well, the reports of all ranks show which rank differs.
  static std::exception_ptr with_own_call(const std::exception_ptr& error,
                                          const CollectiveFingerprint& fingerprint) {
    try {
      std::rethrow_exception(error);
    } catch (const DistNetworkError& e) {
      if (loss_of(error) != page::Loss::gave_up || e.reason().find(calls_differ) == std::string::npos)
        return error;
      return std::make_exception_ptr(
          DistNetworkError(e.reason() + "; here: " + to_string(fingerprint), e.context()));
    } catch (...) {
      return error;
    }
  }

  std::size_t next_early_area() {
    static_assert(Workspace::early_areas >= OperationQueue::begun_at_once);
    return Workspace::first_early + early_ones_++ % Workspace::early_areas;
  }

  static void complete(const WorkSource& source, const std::exception_ptr& error) {
    if (error) {
      source.fail(error);
    } else {
      source.succeed();
    }
  }

  const std::unique_ptr<Transport> transport_;
  const MessageGroup messages_;
  Workspace workspace_;
  ReductionOrders orders_;
  std::size_t early_ones_ = 0;  // so far
  bool shut_down_ = false;
  Messenger messenger_{*transport_};
  std::once_flag messages_begun_;
  std::optional<MemoryMessenger> memory_messenger_;
  OperationQueue queue_;  // last: its thread uses the others
};

CollectiveBackend::CollectiveBackend(std::unique_ptr<Transport> transport)
    : impl_(std::make_unique<Impl>(std::move(transport))) {}

CollectiveBackend::~CollectiveBackend() = default;

Work CollectiveBackend::all_reduce(const Tensor& tensor, const Reduction& reduction,
                                   const Operation& operation) {
  const CollectiveFingerprint fingerprint{.kind = CollectiveKind::all_reduce,
                                          .dtype = tensor.dtype(),
                                          .op = reduction.op,
                                          .count = tensor.numel()};
  if (operation.async && impl_->only_messages() && !is_integer_avg(tensor.dtype(), reduction) &&
      ShortAllReduce::suits(impl_->transport().size(), tensor.nbytes())) {
    return impl_->start_short_all_reduce(fingerprint, operation, tensor, reduction);
  }
  return impl_->start(
      fingerprint, operation,
      [reduction](auto& call, const Tensor& values) {
        internal::all_reduce(call, values.bytes(), values.dtype(), reduction);
      },
      tensor);
}

Work CollectiveBackend::broadcast(const Tensor& tensor, int src, const Operation& operation) {
  const CollectiveFingerprint fingerprint{
      .kind = CollectiveKind::broadcast, .dtype = tensor.dtype(), .root = src, .count = tensor.numel()};
  return impl_->start(
      fingerprint, operation,
      [src](auto& call, const Tensor& values) { internal::broadcast(call, values.bytes(), src); }, tensor);
}

Work CollectiveBackend::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                                   const Operation& operation) {
  const CollectiveFingerprint fingerprint =
      fingerprint_of_parts(CollectiveKind::all_gather, input.dtype(), outputs);
  return impl_->start(
      fingerprint, operation,
      [places = bytes_of<Bytes>(outputs)](auto& call, const Tensor& own) {
        internal::all_gather(call, places, own.bytes());
      },
      input);
}

Work CollectiveBackend::barrier(const Operation& operation) {
  return impl_->start(CollectiveFingerprint{.kind = CollectiveKind::barrier}, operation,
                      [](auto& call) { internal::barrier(call); });
}

Work CollectiveBackend::reduce(const Tensor& tensor, int dst, const Reduction& reduction,
                               const Operation& operation) {
  const CollectiveFingerprint fingerprint{.kind = CollectiveKind::reduce,
                                          .dtype = tensor.dtype(),
                                          .op = reduction.op,
                                          .root = dst,
                                          .count = tensor.numel()};
  return impl_->start(
      fingerprint, operation,
      [dst, reduction](auto& call, const Tensor& values) {
        reduce_to_root(call, values.bytes(), values.dtype(), reduction, dst);
      },
      tensor);
}

Work CollectiveBackend::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                               const Operation& operation) {
  const CollectiveFingerprint fingerprint{
      .kind = CollectiveKind::gather, .dtype = input.dtype(), .root = dst, .count = input.numel()};
  return impl_->start(
      fingerprint, operation,
      [places = bytes_of<Bytes>(outputs), dst](auto& call, const Tensor& own) {
        internal::gather(call, places, own.bytes(), dst);
      },
      input);
}

Work CollectiveBackend::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                                const Operation& operation) {
  const CollectiveFingerprint fingerprint{
      .kind = CollectiveKind::scatter, .dtype = output.dtype(), .root = src, .count = output.numel()};
  return impl_->start(
      fingerprint, operation,
      [places = bytes_of<ConstBytes>(inputs), src](auto& call, const Tensor& own) {
        internal::scatter(call, own.bytes(), places, src);
      },
      output);
}

Work CollectiveBackend::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                                       const Reduction& reduction, const Operation& operation) {
  CollectiveFingerprint fingerprint =
      fingerprint_of_parts(CollectiveKind::reduce_scatter, output.dtype(), inputs);
  fingerprint.op = reduction.op;
  return impl_->start(
      fingerprint, operation,
      [places = bytes_of<ConstBytes>(inputs), reduction](auto& call, const Tensor& own) {
        internal::reduce_scatter(call, own.bytes(), places, own.dtype(), reduction);
      },
      output);
}

Work CollectiveBackend::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                   const Operation& operation) {
  const CollectiveFingerprint fingerprint{.kind = CollectiveKind::all_to_all,
                                          .dtype = inputs.front().dtype()};
  return impl_->start(fingerprint, operation,
                      [to = bytes_of<Bytes>(outputs), from = bytes_of<ConstBytes>(inputs)](auto& call) {
                        internal::all_to_all(call, to, from);
                      });
}

Work CollectiveBackend::all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                                             const Operation& operation) {
  const DType dtype = tensors.front().dtype();
  CollectiveFingerprint fingerprint =
      fingerprint_of_parts(CollectiveKind::all_reduce_coalesced, dtype, tensors);
  fingerprint.op = reduction.op;
  return impl_->start(fingerprint, operation,
                      [places = bytes_of<Bytes>(tensors), dtype, reduction](auto& call) {
                        internal::all_reduce_coalesced(call, places, dtype, reduction);
                      });
}

Work CollectiveBackend::send(const Tensor& tensor, int dst, Tag tag, const Operation& operation) {
  if (MemoryMessenger* const memory = impl_->memory_messenger(dst))
    return memory->send(tensor, dst, tag, operation.deadline, operation.async);
  return impl_->messenger().send(tensor, dst, tag, operation.deadline);
}

Work CollectiveBackend::recv(const Tensor& tensor, int src, Tag tag, const Operation& operation) {
  if (src == any_source && impl_->has_both_messengers())
    return impl_->recv_from_any(tensor, tag, operation.deadline);
  if (MemoryMessenger* const memory = impl_->memory_messenger(src))
    return memory->recv(tensor, src, tag, operation.deadline, operation.async);
  return impl_->messenger().recv(tensor, src, tag, operation.deadline);
}

bool CollectiveBackend::takes_every_call() noexcept { return true; }

std::shared_ptr<std::byte> CollectiveBackend::allocate_shared(std::size_t size, std::string& why) {
  if (const GroupMemory* const memory = impl_->shared_memory()) return memory->allocate(size, why);
  why = "no other rank of the group shares memory with this one";
  return nullptr;
}

void CollectiveBackend::check() { impl_->transport().check(); }
void CollectiveBackend::enter(std::uint64_t sequence) noexcept { impl_->transport().enter(sequence); }
void CollectiveBackend::explain_delay(std::uint64_t sequence) {
  if (const std::exception_ptr error = impl_->explain_delay(sequence, nullptr)) std::rethrow_exception(error);
}
std::vector<int> CollectiveBackend::departed() { return impl_->transport().departed(); }
void CollectiveBackend::abort(const std::string& reason) noexcept { impl_->transport().abort(reason); }
void CollectiveBackend::shutdown() noexcept { impl_->shutdown(); }
void CollectiveBackend::leave(Deadline deadline) noexcept { impl_->leave(deadline); }

}  // namespace v1
}  // namespace dlaunch
