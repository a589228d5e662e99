// A double of NCCL (libnccl) for tests on machines without a GPU: the entry points that dlaunch uses, with
// the real ones' meaning, over the double of the CUDA runtime. Non-blocking communicators answer
// ncclInProgress as often as a seed decides. They put a call into its stream at a time of their own, also if
// nobody asks any more, as the thread of the real ones does. See nccl_launch.h.

#include <cuda_runtime_api.h>
#include <dlaunch/half.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/doubles/cuda_device.h"
#include "tests/doubles/nccl_launch.h"

using doubles::Call;
using doubles::CallKind;
using doubles::CommunicatorState;
using doubles::Operator;

using Clock = std::chrono::steady_clock;

// The call that a communicator has not carried out yet; lives longer than the communicator.
class InProgress {
 public:
  void set(std::function<void()> call, Clock::time_point not_before) {
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
    not_before_ = not_before;
  }
  // Whether there is none any more.
  bool carry_out() {
    const std::lock_guard lock(mutex_);
    if (!call_) return true;
    if (Clock::now() < not_before_) return false;
    std::exchange(call_, nullptr)();
    return true;
  }
  bool is_there() {
    const std::lock_guard lock(mutex_);
    return call_ != nullptr;
  }

 private:
  std::mutex mutex_;
  std::function<void()> call_;  // protected by mutex_, as the next
  Clock::time_point not_before_;
};

struct ncclComm {
  std::shared_ptr<CommunicatorState> state;
  const std::shared_ptr<InProgress> in_progress = std::make_shared<InProgress>();
  bool is_blocking = false;
  std::mutex mutex;
  // protected by mutex
  bool has_joined = false;
  bool is_finalizing = false;
  std::uint64_t answers_left = 0;  // of ncclInProgress
  std::vector<Operator> operators;
  std::string last_error;
};

namespace {

constexpr std::uint64_t most_answers = 3;
constexpr auto slow_call = std::chrono::milliseconds(100);

struct Pending {
  ncclComm_t communicator;
  cudaStream_t stream;
  Call call;
};
thread_local int group_depth = 0;
thread_local std::vector<Pending> pending;

std::atomic<std::uint64_t> launches = 0;

ncclResult_t refuse(ncclComm_t communicator, ncclResult_t result, const std::string& text) {
  communicator->last_error = text;
  return result;
}

// With the mutex held.
ncclResult_t progress(ncclComm_t communicator) {
  if (communicator->state->error != ncclSuccess) {
    communicator->last_error = "the double was told to fail";
    return communicator->state->error;
  }
  if (!communicator->has_joined) {
    if (!communicator->state->world.join()) return ncclInProgress;
    communicator->has_joined = true;
    const int twin = communicator->state->world.rank_on_same_device();
    if (twin >= 0) {
      communicator->state->error = ncclInvalidUsage;
      return refuse(communicator, ncclInvalidUsage, "Duplicate GPU detected");
    }
  }
  if (communicator->answers_left > 0) {
    --communicator->answers_left;
    return ncclInProgress;
  }
  if (!communicator->in_progress->carry_out()) return ncclInProgress;
  if (communicator->is_finalizing && communicator->state->running > 0) return ncclInProgress;
  return ncclSuccess;
}

ncclResult_t progress_of_call(ncclComm_t communicator) {
  std::unique_lock lock(communicator->mutex);
  ncclResult_t result = progress(communicator);
  while (result == ncclInProgress && communicator->is_blocking) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    result = progress(communicator);
  }
  return result;
}

ncclResult_t launch(ncclComm_t communicator, cudaStream_t stream, std::vector<Call> calls) {
  const doubles::StreamPointer where = doubles::stream_of(stream);
  {
    const std::lock_guard lock(communicator->mutex);
    if (!communicator->has_joined || communicator->in_progress->is_there()) {
      std::fprintf(stderr, "NCCL double: a call while an earlier one is in progress\n");
      return refuse(communicator, ncclInvalidUsage, "an earlier call is in progress");
    }
    if (communicator->state->error != ncclSuccess) return communicator->state->error;
    communicator->answers_left = communicator->is_blocking ? 0 : doubles::streams().draw(most_answers);
    const bool is_slow =
        doubles::planned_fault(communicator->state->world.rank(), launches + 1) == doubles::Fault::slow;
    const auto start = [state = communicator->state, where, calls = std::move(calls)] {
      const bool is_captured = doubles::streams().capture_status(where) != cudaStreamCaptureStatusNone;
      std::vector<doubles::Place> after;
      if (!is_captured && state->latest.stream) after.push_back(state->latest);
      const auto make = [state, calls]() -> doubles::Step {
        return [made = std::make_shared<doubles::Launch>(state, calls, ++launches)] { return made->step(); };
      };
      doubles::streams().add_made(where, make, std::move(after));
      if (!is_captured) state->latest = doubles::streams().end_of(where);
    };
    communicator->in_progress->set(start, Clock::now() + (is_slow ? slow_call : Clock::duration::zero()));
    if (!communicator->is_blocking) {
      static const doubles::StreamPointer& of_communicators =
          *new doubles::StreamPointer(doubles::streams().make(0, false));
      doubles::streams().add(of_communicators,
                             [mine = communicator->in_progress] { return mine->carry_out(); });
    }
  }
  return progress_of_call(communicator);
}

ncclResult_t call(ncclComm_t communicator, cudaStream_t stream, const Call& one) {
  if (doubles::size_of(one.type) == 0) return refuse(communicator, ncclInvalidArgument, "an unknown type");
  if (group_depth == 0) return launch(communicator, stream, {one});
  pending.push_back({communicator, stream, one});
  return ncclSuccess;
}

Operator operator_of(ncclComm_t communicator, ncclRedOp_t op) {
  if (op < ncclNumOps) return {op, std::nullopt};
  const std::lock_guard lock(communicator->mutex);
  return communicator->operators[static_cast<std::size_t>(op) - ncclNumOps];
}

double value_at(const void* scalar, ncclDataType_t type) {
  if (type == ncclFloat64) return *static_cast<const double*>(scalar);
  if (type == ncclFloat32) return static_cast<double>(*static_cast<const float*>(scalar));
  if (type == ncclFloat16)
    return static_cast<double>(static_cast<const dlaunch::Float16*>(scalar)->to_float());
  return static_cast<double>(static_cast<const dlaunch::BFloat16*>(scalar)->to_float());
}

}  // namespace

extern "C" {
#define DOUBLE __attribute__((visibility("default")))

DOUBLE ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
DOUBLE ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const doubles::WorldName name = doubles::World::create();
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &name, sizeof name);
  return ncclSuccess;
}
DOUBLE const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return texts[static_cast<std::size_t>(result)];
}
DOUBLE const char* ncclGetLastError(ncclComm_t communicator) {
  return communicator != nullptr ? communicator->last_error.c_str() : "";
}

DOUBLE ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t* config) {
  doubles::WorldName name{};
  std::memcpy(&name, &id, sizeof name);
  if (ranks < 1 || static_cast<std::size_t>(ranks) > doubles::most_ranks) return ncclInvalidArgument;
  auto* const communicator = new ncclComm;
  communicator->state = std::make_shared<CommunicatorState>(name, rank, ranks);
  communicator->is_blocking = config == nullptr || config->blocking != 0;
  communicator->answers_left = communicator->is_blocking ? 0 : doubles::streams().draw(most_answers);
  *made = communicator;
  return progress_of_call(communicator);
}
DOUBLE ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* result) {
  const std::lock_guard lock(communicator->mutex);
  *result = progress(communicator);
  return ncclSuccess;
}
DOUBLE ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  while (communicator->state->hangs_in_abort) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  communicator->state->is_aborted = true;
  delete communicator;
  return ncclSuccess;
}
DOUBLE ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  {
    const std::lock_guard lock(communicator->mutex);
    communicator->is_finalizing = true;
  }
  return progress_of_call(communicator);
}
DOUBLE ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  while (communicator->state->running > 0) std::this_thread::yield();
  delete communicator;
  return ncclSuccess;
}

DOUBLE ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
DOUBLE ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  std::vector<Pending> all = std::exchange(pending, {});
  ncclResult_t result = ncclSuccess;
  while (!all.empty()) {
    const Pending first = all.front();
    std::vector<Call> calls;
    std::erase_if(all, [&](const Pending& one) {
      if (one.communicator != first.communicator) return false;
      calls.push_back(one.call);
      return true;
    });
    const ncclResult_t its_result = launch(first.communicator, first.stream, std::move(calls));
    if (its_result != ncclSuccess) result = its_result;
  }
  return result;
}

DOUBLE ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream,
              {CallKind::all_reduce, from, to, count, type, operator_of(communicator, op), 0});
}
DOUBLE ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream, {CallKind::broadcast, from, to, count, type, {}, root});
}
DOUBLE ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               int root, ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream,
              {CallKind::reduce, from, to, count, type, operator_of(communicator, op), root});
}
DOUBLE ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                                  ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream, {CallKind::all_gather, from, to, count, type, {}, 0});
}
DOUBLE ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream,
              {CallKind::reduce_scatter, from, to, count, type, operator_of(communicator, op), 0});
}
DOUBLE ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                             ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream, {CallKind::send, from, nullptr, count, type, {}, peer});
}
DOUBLE ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                             cudaStream_t stream) {
  return call(communicator, stream, {CallKind::recv, nullptr, to, count, type, {}, peer});
}
DOUBLE ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                             ncclScalarResidence_t /*residence*/, ncclComm_t communicator) {
  const std::lock_guard lock(communicator->mutex);
  *op = static_cast<ncclRedOp_t>(ncclNumOps + communicator->operators.size());
  communicator->operators.push_back({ncclSum, value_at(scalar, type)});
  return ncclSuccess;
}
DOUBLE ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t communicator) {
  const std::lock_guard lock(communicator->mutex);
  return static_cast<std::size_t>(op) < ncclNumOps + communicator->operators.size() ? ncclSuccess
                                                                                    : ncclInvalidArgument;
}

}  // extern "C"
