#include "runtime/backends/nccl/nccl_backend.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "dlaunch/stream.h"
#include "runtime/backends/nccl/nccl_rendezvous.h"
#include "runtime/backends/nccl/nccl_types.h"
#include "runtime/base/deadline.h"
#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

namespace {

constexpr int multi_rank_version = 23000;  // the first that allows several ranks on one device

constexpr const char* not_connected_before_capture =
    "the current stream is being captured into a CUDA graph, and the ranks have not connected their GPUs "
    "yet: call barrier() before the capture, or name the device (device_id) when the group is made";

bool is_switched_on(const char* variable) { return process_environment(variable).value_or("0") == "1"; }

// PyTorch's values 1 and 3 end the process, 2 only aborts.
bool failure_ends_process() {
  for (const char* const variable : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"}) {
    if (const auto value = process_environment(variable)) return *value == "1" || *value == "3";
  }
  return false;
}

bool may_share_devices(int version) {
  return version >= multi_rank_version && is_switched_on("NCCL_MULTI_RANK_GPU_ENABLE");
}

cudaStream_t current(int device) { return static_cast<cudaStream_t>(current_stream(device).handle); }

std::string unique_id(const NcclFunctions& nccl) {
  ncclUniqueId id{};
  const ncclResult_t result = nccl.ncclGetUniqueId(&id);
  if (result != ncclSuccess)
    throw DistBackendError(std::string("ncclGetUniqueId failed: ") + nccl.ncclGetErrorString(result));
  return {id.internal, sizeof id.internal};
}

}  // namespace

NcclBackend::NcclBackend(const BackendContext& context)
    : nccl_(NcclLibrary::get().functions()),
      rank_(context.rank),
      size_(context.size),
      named_device_(context.cuda_device),
      log_(context.log),
      control_plane_(context.control_plane),
      store_(context.lasting_store),
      check_(control_plane_ ? LossCheck([control = control_plane_] { control->check(); }) : LossCheck()),
      waits_block_(is_switched_on("TORCH_NCCL_BLOCKING_WAIT") || is_switched_on("NCCL_BLOCKING_WAIT")),
      failure_ends_process_(!waits_block_ && failure_ends_process()),
      group_(context.group),
      events_(nccl_),
      watchdog_(end_, outside()) {
  if (!store_) throw DistBackendError("this backend needs the store for longer than the group is formed");
  if (context.parent) {
    auto& parent = dynamic_cast<NcclBackend&>(*context.parent);
    adopt(parent.split(context.parent_ranks.front(), rank_, context.deadline, context.check));
  } else if (named_device_) {
    connect(choose_device(nccl_, named_device_), context.store, context.deadline, context.check);
  }
}

NcclBackend::~NcclBackend() {
  watchdog_.stop();
  if (is_leaving_) (void)communicator_.release();
}

void NcclBackend::connect(int device, BackendStore& store, Deadline deadline, const LossCheck& check) {
  const NcclPlace place{rank_, size_, device_identity(nccl_, device),
                        may_share_devices(NcclLibrary::get().version())};
  const std::string id = share_unique_id(store, place, deadline, [this] { return unique_id(nccl_); });
  adopt(std::make_unique<NcclCommunicator>(
      nccl_, id, rank_, size_, device, patience(deadline, check, "the ranks did not connect their GPUs")));
}

void NcclBackend::adopt(std::unique_ptr<NcclCommunicator> made) {
  communicator_ = std::move(made);
  connected_ = communicator_.get();
  device_ = communicator_->device();
}

std::unique_ptr<NcclCommunicator> NcclBackend::split(int color, int key, Deadline deadline,
                                                     const LossCheck& check) {
  try {
    const std::unique_lock lock(mutex_);
    require_no_end();
    const DeviceScope scope(nccl_, device_);
    return communicator_->split(color, key, [&] {
      const bool has_ended = end_.is_set();
      if (check) check();  // first: it names the rank that is lost
      if (has_ended) require_no_end();
      if (has_passed(deadline))
        throw DistNetworkError("the ranks did not make the new group's communicator before the deadline");
    });
  } catch (const DistError& e) {
    abort("a new group could not be made of this one: " + e.reason());
    throw;
  }
}

// For callers that have other numbers for the ranks.
void NcclBackend::require_no_end() {
  try {
    end_.throw_if_set();
  } catch (const DistError& e) {
    throw DistNetworkError("the default group has failed: " + e.reason());
  }
}

void NcclBackend::split_without_this_rank(Deadline deadline, const LossCheck& check) {
  (void)split(NcclCommunicator::no_color, rank_, deadline, check);
}

NcclCommunicator& NcclBackend::communicator(int device, Deadline deadline) {
  if (!communicator_) connect(device, *store_, deadline, check_);
  return *communicator_;
}

NcclPatience NcclBackend::patience(Deadline deadline, const LossCheck& check, std::string waits_for) {
  return [this, deadline, check, waits_for = std::move(waits_for)] {
    end_.throw_if_set();
    if (check) check();
    if (has_passed(deadline)) throw DistNetworkError(waits_for + " before the deadline");
  };
}

template <class Call>
void NcclBackend::enqueue(const Track& track, const Place& place, const Call& call, Events& events) {
  end_.throw_if_set();
  const DeviceScope scope(nccl_, track.device);
  NcclCommunicator& with = communicator(track.device, place.deadline);
  const cudaStream_t stream = track.callers.value_or(with.stream());
  if (!track.callers) {
    CudaEvent before;
    record_in(current(track.device), before);
    require_cuda(nccl_, nccl_.cudaStreamWaitEvent(stream, before.get(), 0), "cudaStreamWaitEvent");
  }
  const bool is_alone = size_ == 1 && !track.is_captured;
  if (is_alone) wait_for_latest(stream);
  events.has_begin = !track.is_captured && size_ > 1;  // one rank waits for nobody
  if (events.has_begin) record_in(stream, events.begin);
  start_in(with, stream, place, call);
  record_in(stream, events.end);
  if (is_alone) latest_ = {stream, events.end.get()};
}

void NcclBackend::record_in(cudaStream_t stream, CudaEvent& event) {
  require_cuda(nccl_, nccl_.cudaEventRecord(events_.renew(event).get(), stream), "cudaEventRecord");
}

// It may wait inside NCCL for a rank to connect: the watchdog interrupts it then.
template <class Call>
void NcclBackend::start_in(const NcclCommunicator& with, cudaStream_t stream, const Place& place,
                           const Call& call) {
  const NcclWatchdog::Inside inside(watchdog_, place.sequence, place.deadline);
  NcclCalls calls(nccl_, with, stream, rank_, size_);
  call(calls);
  const NcclCalls::Outcome outcome = calls.start();
  end_.throw_if_set();
  with.require(outcome.result, outcome.call);
}

void NcclBackend::wait_for_latest(cudaStream_t stream) const {
  if (latest_.end == nullptr || latest_.stream == stream) return;
  require_cuda(nccl_, nccl_.cudaStreamWaitEvent(stream, latest_.end, 0), "cudaStreamWaitEvent");
}

// The stream may be another thread's when it waits: so the device is set, too.
WorkSource NcclBackend::source_of(const CudaEvent& end, const Track& track) const {
  if (waits_block_ && !track.is_captured) return {};
  const auto order = [end, device = track.device, in = track.callers, &nccl = nccl_] {
    try {
      const cudaStream_t stream = current(device);
      if (in == stream) return true;
      const DeviceScope scope(nccl, device);
      if (nccl.cudaStreamWaitEvent(stream, end.get(), 0) == cudaSuccess) return true;
      (void)nccl.cudaGetLastError();  // it is none for the program
    } catch (const DistError&) {
      // The error of the operation says more.
    }
    return false;
  };
  if (track.is_captured) return WorkSource::of_captured(order);
  return size_ > 1 ? WorkSource::of_queued(order) : WorkSource(order);
}

bool NcclBackend::is_capturing(int device) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return nccl_.cudaStreamIsCapturing(current(device), &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

NcclBackend::Track NcclBackend::track_of(int device, const Place& place) const {
  Track track{device, is_capturing(device)};
  if (!place.async && !track.is_captured) track.callers = current(device);
  return track;
}

void NcclBackend::hand_over(NcclWatchdog::Watched started, const Track& track) {
  if (track.is_captured) return started.source->succeed();
  watchdog_.watch(std::move(started));
}

template <class Call>
Work NcclBackend::start(int device, const Place& place, const Call& call) {
  if (Batch* const batch = own_batch()) return join_batch(*batch, device, place, Body(call));
  const Track track = track_of(device, place);
  const std::unique_lock lock(mutex_);
  if (place.unseen != nullptr && track.callers && !waits_block_) {
    start_unseen(track, place, call);
    return {};
  }
  CudaEvent begin;
  CudaEvent end;
  Events events{begin, end};
  enqueue(track, place, call, events);
  const WorkSource source = source_of(end, track);
  hand_over({place.sequence, place.deadline, begin, events.has_begin, end, source, place.sender}, track);
  return source.work();
}

template <class Call>
void NcclBackend::start_unseen(const Track& track, const Place& place, const Call& call) {
  NcclWatchdog::Watched& started = watchdog_.next();
  Events events{started.begin, started.end};
  enqueue(track, place, call, events);
  started.sequence = place.sequence;
  started.deadline = place.deadline;
  started.awaits_begin = events.has_begin;
  started.source.reset();
  started.sender = -1;
  place.unseen->observer->on_start(*place.unseen, events.has_begin);
  started.unseen = *place.unseen;
  watchdog_.watch_next();
}

NcclBackend::Batch* NcclBackend::own_batch() {
  if (open_batches_ == 0) return nullptr;
  const std::lock_guard lock(batches_mutex_);
  const auto found = batches_.find(std::this_thread::get_id());
  return found == batches_.end() ? nullptr : &found->second;
}

Work NcclBackend::join_batch(Batch& batch, int device, const Place& place, Body body) {
  if (batch.device.value_or(device) != device)
    throw DistBackendError("operations that are started together are on two devices");
  const DeviceScope scope(nccl_, device);
  batch.device = device;
  const CudaEvent end = events_.take();  // recorded when they start
  batch.bodies.push_back(std::move(body));
  const Track track{device, is_capturing(device)};
  batch.works.push_back(
      {place.sequence, place.deadline, {}, false, end, source_of(end, track), place.sender});
  return batch.works.back().source->work();
}

void NcclBackend::begin_together() {
  const std::lock_guard lock(batches_mutex_);
  batches_[std::this_thread::get_id()] = {};
  ++open_batches_;
}

void NcclBackend::end_together() {
  Batch batch;
  {
    const std::lock_guard lock(batches_mutex_);
    batch = std::move(batches_.extract(std::this_thread::get_id()).mapped());
    --open_batches_;
  }
  if (batch.works.empty()) return;
  const Track track{*batch.device, is_capturing(*batch.device)};
  const std::unique_lock lock(mutex_);
  try {
    const auto& first = std::ranges::min(batch.works, {}, &NcclWatchdog::Watched::deadline);
    CudaEvent begin;
    CudaEvent end;
    Events events{begin, end};
    const auto start_all = [&](NcclCalls& calls) {
      for (const Body& body : batch.bodies) body(calls);
    };
    enqueue(track, {first.sequence, first.deadline, true}, start_all, events);
    const DeviceScope scope(nccl_, *batch.device);
    for (NcclWatchdog::Watched& one : batch.works) {
      one.begin = begin;
      one.awaits_begin = events.has_begin;
      require_cuda(nccl_, nccl_.cudaEventRecord(one.end.get(), communicator_->stream()), "cudaEventRecord");
    }
  } catch (...) {
    for (const NcclWatchdog::Watched& one : batch.works) one.source->fail(std::current_exception());
    throw;
  }
  for (NcclWatchdog::Watched& one : batch.works) hand_over(std::move(one), track);
}

Work NcclBackend::all_reduce(const Tensor& tensor, const Reduction& reduction, const Operation& operation) {
  return start(tensor.device().index, collective(operation),
               [=](NcclCalls& calls) { calls.all_reduce(tensor, reduction); });
}

Work NcclBackend::broadcast(const Tensor& tensor, int src, const Operation& operation) {
  return start(tensor.device().index, collective(operation),
               [=](NcclCalls& calls) { calls.broadcast(tensor, src); });
}

Work NcclBackend::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                             const Operation& operation) {
  return start(input.device().index, collective(operation),
               [to = std::vector(outputs.begin(), outputs.end()), input](NcclCalls& calls) {
                 calls.all_gather(to, input);
               });
}

// The caller waits for it on the host, as in torch.distributed; in a graph its stream does.
Work NcclBackend::barrier(const Operation& operation) {
  const int device = device_ >= 0 ? device_.load() : choose_device(nccl_, named_device_);
  if (device_ < 0 && is_capturing(device)) throw DistBackendError(not_connected_before_capture);
  Place place = collective(operation);
  place.async = true;  // a host that waits needs no stream of its own to wait, too
  Work all_here = start(device, place, [](NcclCalls& calls) { calls.barrier(); });
  if (is_capturing(device)) return all_here;
  const WorkSource on_host;
  all_here.then([on_host](const Work& work) {
    if (const std::exception_ptr error = work.exception()) return on_host.fail(error);
    on_host.succeed();
  });
  return on_host.work();
}

Work NcclBackend::reduce(const Tensor& tensor, int dst, const Reduction& reduction,
                         const Operation& operation) {
  return start(tensor.device().index, collective(operation),
               [=](NcclCalls& calls) { calls.reduce(tensor, dst, reduction); });
}

Work NcclBackend::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                         const Operation& operation) {
  return start(input.device().index, collective(operation),
               [to = std::vector(outputs.begin(), outputs.end()), input, dst](NcclCalls& calls) {
                 calls.gather(to, input, dst);
               });
}

Work NcclBackend::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                          const Operation& operation) {
  return start(output.device().index, collective(operation),
               [output, from = std::vector(inputs.begin(), inputs.end()), src](NcclCalls& calls) {
                 calls.scatter(output, from, src);
               });
}

Work NcclBackend::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                                 const Reduction& reduction, const Operation& operation) {
  return start(output.device().index, collective(operation),
               [output, from = std::vector(inputs.begin(), inputs.end()), reduction](NcclCalls& calls) {
                 calls.reduce_scatter(output, from, reduction);
               });
}

Work NcclBackend::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                             const Operation& operation) {
  return start(
      inputs.front().device().index, collective(operation),
      [to = std::vector(outputs.begin(), outputs.end()),
       from = std::vector(inputs.begin(), inputs.end())](NcclCalls& calls) { calls.all_to_all(to, from); });
}

Work NcclBackend::all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                                       const Operation& operation) {
  return start(tensors.front().device().index, collective(operation),
               [all = std::vector(tensors.begin(), tensors.end()), reduction](NcclCalls& calls) {
                 for (const Tensor& tensor : all) calls.all_reduce(tensor, reduction);
               });
}

Work NcclBackend::send(const Tensor& tensor, int dst, Tag /*tag*/, const Operation& operation) {
  return start(tensor.device().index, message(operation), [=](NcclCalls& calls) { calls.send(tensor, dst); });
}

Work NcclBackend::recv(const Tensor& tensor, int src, Tag /*tag*/, const Operation& operation) {
  return start(tensor.device().index, message(operation, src),
               [=](NcclCalls& calls) { calls.recv(tensor, src); });
}

std::string NcclBackend::why_not(const CallSubject& call) {
  const int own = device_ >= 0 ? device_.load() : named_device_.value_or(-1);
  if (call.device && own >= 0 && call.device->index != own) {
    return "the tensor is on cuda:" + std::to_string(call.device->index) +
           ", and the group uses cuda:" + std::to_string(own) + " of this rank";
  }
  if (call.device && device_ < 0 && is_capturing(call.device->index)) {
    return not_connected_before_capture;
  }
  return why_nccl_cannot(call, rank_);
}

}  // namespace dlaunch::internal
