#include "runtime/staging/staged_backend.h"

#include <chrono>
#include <exception>

#include "dlaunch/error.h"
#include "runtime/backend/module_file.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"

namespace dlaunch::internal {

namespace {

using std::chrono::microseconds;
using Host = std::span<const Tensor>;
using Way = StagedTensor::Way;

// A wait on the program's thread: so often at once, then so often while others may use the processor, then
// with pauses, which the end of a call on host memory ends.
constexpr int looks_at_once = 50;
constexpr int looks_without_pause = 150;
constexpr microseconds pause_between_looks(100);
// How long shutdown() waits for running operations, and the destructor for copies after a failure.
constexpr std::chrono::milliseconds shutdown_limit(5000);
constexpr std::chrono::milliseconds rest_limit(1000);

void add(std::vector<StagedTensor>& all, std::span<const Tensor> tensors, Way way) {
  for (const Tensor& tensor : tensors) all.push_back({tensor, way});
}

template <class Call>
std::vector<StagedPart> one_part(std::vector<StagedTensor> tensors, const Call& call, bool in_place = false) {
  std::vector<StagedPart> parts;
  parts.push_back({std::move(tensors), call, in_place});
  return parts;
}

// For calls in which each element stands for itself. In place, too, there are as many as on a rank that
// copies.
template <class Call>
std::vector<StagedPart> parts_of(const Tensor& tensor, Way way, bool in_place, const Call& call) {
  std::vector<StagedPart> parts;
  for (const Tensor& part : cut_in_parts(tensor)) parts.push_back({{{part, way}}, call, in_place});
  return parts;
}

CallSubject message_of(const Tensor& tensor, Tag tag, int peer) {
  return {.dtype = tensor.dtype(), .is_message = true, .tag = tag, .peer = peer};
}

// Of one size, each where the one before it ends.
bool are_one_array(std::span<const Tensor> tensors) {
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const std::size_t size = tensors[i - 1].nbytes();
    if (tensors[i].nbytes() != size ||
        tensors[i].data() != static_cast<std::byte*>(tensors[i - 1].data()) + size)
      return false;
  }
  return true;
}

}  // namespace

const StagingModule* staging_module(std::string& problem) {
  struct Found {
    const StagingModule* module = nullptr;
    std::string problem;
  };
  static const Found& only = []() -> Found& {
    Found& found = *new Found;
    try {
      found.module = static_cast<const StagingModule*>(
          find_in_module(staging_module_file, staging_module_symbol, "this build has no CUDA"));
      found.problem = found.module->why_not();
      if (!found.problem.empty()) found.module = nullptr;
    } catch (const DistError& e) {
      found.problem = e.reason();
    }
    return found;
  }();
  problem = only.problem;
  return only.module;
}

StagedBackend::StagedBackend(std::shared_ptr<Backend> inner, int rank)
    : inner_(std::move(inner)), rank_(rank), thread_(end_, [] {
        std::string problem;
        if (const StagingModule* const module = staging_module(problem)) module->enter_thread();
      }) {}

StagedBackend::~StagedBackend() {
  thread_.stop();
  if (thread_.come_to_rest(Deadline::min())) return;
  inner_->abort("the group was destroyed before the operation had ended");
  (void)thread_.come_to_rest(deadline_after(rest_limit));
}

const std::shared_ptr<PinnedMemory>& StagedBackend::pinned_memory() {
  const std::lock_guard lock(mutex_);
  std::string problem;
  const StagingModule* const module = staging_module(problem);
  if (module == nullptr) throw DistBackendError(problem);
  if (!memory_) memory_ = PinnedMemory::of_process({module->allocate, module->release});
  return memory_;
}

std::shared_ptr<DeviceCopies> StagedBackend::copies_of(int device, Kind kind) {
  std::string problem;
  const StagingModule* const module = staging_module(problem);
  if (module == nullptr) throw DistBackendError(problem);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<DeviceCopies>& copies = copies_[{device, kind == Kind::collective}];
  if (!copies) copies = module->open(device);
  return copies;
}

Work StagedBackend::start(Kind kind, std::vector<StagedPart> parts, const Operation& operation) {
  end_.throw_if_set();
  const Device device = parts.front().tensors.front().device.device();
  const std::shared_ptr<DeviceCopies> copies = copies_of(device.index, kind);
  StagedCall::Setting setting{copies,          pinned_memory(),  operation, copies->current(),
                              thread_.waker(), to_string(device)};
  auto call = std::make_unique<StagedCall>(std::move(parts), std::move(setting));
  if (!operation.async) return run(std::move(call), kind);
  const std::shared_ptr<StagedEnd> end = call->end();
  const WorkSource source([copies, end] {
    const DeviceCopies::Place place = end->get();
    return place && copies->order_current(place);
  });
  if (kind == Kind::receive) {
    try {
      (void)call->advance({});  // posted in the order of the program's calls
    } catch (...) {
      thread_.give_up(std::move(call));
      throw;
    }
  }
  thread_.add({kind, std::move(call), source});
  return source.work();
}

Work StagedBackend::run(std::unique_ptr<StagedCall> call, Kind kind) {
  if (kind == Kind::collective) thread_.wait_until_started();
  try {
    for (int looks = 0; !call->advance({}); ++looks) {
      end_.throw_if_set();
      if (looks < looks_at_once) continue;
      if (looks < looks_without_pause) {
        std::this_thread::yield();
      } else {
        thread_.pause(pause_between_looks);
      }
    }
  } catch (...) {
    thread_.give_up(std::move(call));
    throw;
  }
  if (call->source_rank() < 0) return {};
  const WorkSource received;
  received.succeed_from(call->source_rank());
  return received.work();
}

Work StagedBackend::all_reduce(const Tensor& tensor, const Reduction& reduction, const Operation& operation) {
  return start(
      Kind::collective,
      parts_of(tensor, Way::both, inner_->takes_device_memory({.dtype = tensor.dtype(), .op = reduction.op}),
               [inner = inner_.get(), reduction](Host host, const Operation& part) {
                 return inner->all_reduce(host.front(), reduction, part);
               }),
      operation);
}

Work StagedBackend::broadcast(const Tensor& tensor, int src, const Operation& operation) {
  return start(Kind::collective,
               parts_of(tensor, src == rank_ ? Way::to_host : Way::to_device,
                        inner_->takes_device_memory({.dtype = tensor.dtype()}),
                        [inner = inner_.get(), src](Host host, const Operation& part) {
                          return inner->broadcast(host.front(), src, part);
                        }),
               operation);
}

Work StagedBackend::reduce(const Tensor& tensor, int dst, const Reduction& reduction,
                           const Operation& operation) {
  return start(Kind::collective,
               parts_of(tensor, dst == rank_ ? Way::both : Way::to_host,
                        inner_->takes_device_memory({.dtype = tensor.dtype(), .op = reduction.op}),
                        [inner = inner_.get(), dst, reduction](Host host, const Operation& part) {
                          return inner->reduce(host.front(), dst, reduction, part);
                        }),
               operation);
}

Work StagedBackend::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                               const Operation& operation) {
  std::vector<StagedTensor> tensors = {{input, Way::to_host}};
  add(tensors, outputs, Way::to_device);
  const bool in_place = are_one_array(outputs) && inner_->takes_device_memory({.dtype = input.dtype()});
  return start(Kind::collective,
               one_part(
                   std::move(tensors),
                   [inner = inner_.get()](Host host, const Operation& part) {
                     return inner->all_gather(host.subspan(1), host.front(), part);
                   },
                   in_place),
               operation);
}

Work StagedBackend::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                           const Operation& operation) {
  std::vector<StagedTensor> tensors = {{input, Way::to_host}};
  add(tensors, outputs, Way::to_device);
  return start(Kind::collective,
               one_part(std::move(tensors),
                        [inner = inner_.get(), dst](Host host, const Operation& part) {
                          return inner->gather(host.subspan(1), host.front(), dst, part);
                        }),
               operation);
}

Work StagedBackend::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                            const Operation& operation) {
  std::vector<StagedTensor> tensors = {{output, Way::to_device}};
  add(tensors, inputs, Way::to_host);
  return start(Kind::collective,
               one_part(std::move(tensors),
                        [inner = inner_.get(), src](Host host, const Operation& part) {
                          return inner->scatter(host.front(), host.subspan(1), src, part);
                        }),
               operation);
}

Work StagedBackend::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                                   const Reduction& reduction, const Operation& operation) {
  std::vector<StagedTensor> tensors = {{output, Way::to_device}};
  add(tensors, inputs, Way::to_host);
  return start(Kind::collective,
               one_part(std::move(tensors),
                        [inner = inner_.get(), reduction](Host host, const Operation& part) {
                          return inner->reduce_scatter(host.front(), host.subspan(1), reduction, part);
                        }),
               operation);
}

Work StagedBackend::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                               const Operation& operation) {
  std::vector<StagedTensor> tensors;
  add(tensors, outputs, Way::to_device);
  add(tensors, inputs, Way::to_host);
  return start(Kind::collective,
               one_part(std::move(tensors),
                        [inner = inner_.get(), ranks = outputs.size()](Host host, const Operation& part) {
                          return inner->all_to_all(host.first(ranks), host.subspan(ranks), part);
                        }),
               operation);
}

Work StagedBackend::all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                                         const Operation& operation) {
  std::vector<StagedTensor> all;
  add(all, tensors, Way::both);
  return start(Kind::collective,
               one_part(std::move(all),
                        [inner = inner_.get(), reduction](Host host, const Operation& part) {
                          return inner->all_reduce_coalesced(host, reduction, part);
                        }),
               operation);
}

Work StagedBackend::send(const Tensor& tensor, int dst, Tag tag, const Operation& operation) {
  const bool in_place = inner_->takes_device_memory(message_of(tensor, tag, dst));
  return start(Kind::send,
               one_part(
                   {{tensor, Way::to_host}},
                   [inner = inner_.get(), dst, tag](Host host, const Operation& part) {
                     return inner->send(host.front(), dst, tag, part);
                   },
                   in_place),
               operation);
}

Work StagedBackend::recv(const Tensor& tensor, int src, Tag tag, const Operation& operation) {
  // An asynchronous one is posted before the stream is there, which may still read the tensor.
  const bool in_place = !operation.async && inner_->takes_device_memory(message_of(tensor, tag, src));
  return start(Kind::receive,
               one_part(
                   {{tensor, Way::to_device}},
                   [inner = inner_.get(), src, tag](Host host, const Operation& part) {
                     return inner->recv(host.front(), src, tag, part);
                   },
                   in_place),
               operation);
}

Work StagedBackend::barrier(const Operation& operation) {
  thread_.wait_until_started();
  return inner_->barrier(operation);
}

std::string StagedBackend::why_not(const CallSubject& call) {
  CallSubject on_host = call;
  on_host.device = Device{};
  if (std::string why = inner_->why_not(on_host); !why.empty()) return why;
  if (!call.device) return {};
  std::string problem;
  if (staging_module(problem) == nullptr) return "CUDA tensors cannot be used: " + problem;
  try {
    if (!copies_of(call.device->index, Kind::collective)->is_capturing()) return {};
    return "the current stream is being captured into a CUDA graph, of which a copy over the network cannot "
           "be part";
  } catch (const DistError& e) {
    return e.reason();
  }
}

void StagedBackend::enter(std::uint64_t /*sequence*/) noexcept { thread_.wait_until_started(); }

void StagedBackend::abort(const std::string& reason) noexcept {
  end_.set(std::make_exception_ptr(DistNetworkError(reason)));
  thread_.wake();
}

void StagedBackend::shutdown() noexcept {
  if (!thread_.drain(deadline_after(shutdown_limit)))
    abort("the group was destroyed before an operation had ended");
}

void StagedBackend::leave(Deadline /*deadline*/) noexcept {
  thread_.abandon();
  abort("the process ends");
}

}  // namespace dlaunch::internal
