// A double of NCCL (libnccl) for tests on machines without a GPU: the entry points that dlaunch uses, with
// the real ones' meaning, over the double of the CUDA runtime. Its communicators are blocking ones: a call
// waits inside for ranks that have not connected yet, until the communicator is aborted or revoked. See
// nccl_launch.h.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

struct ncclComm {
  std::shared_ptr<CommunicatorState> state;
  std::atomic<bool> is_revoked = false;
  std::atomic<int> inside = 0;  // threads
  std::uint64_t splits = 0;     // that this rank has come to
  std::mutex mutex;
  // protected by mutex
  std::vector<Operator> operators;
  std::string last_error;
};

namespace {

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
  const std::lock_guard lock(communicator->mutex);
  communicator->last_error = text;
  return result;
}

// A thread is inside NCCL.
class Inside {
 public:
  explicit Inside(ncclComm_t communicator) : communicator_(communicator) { ++communicator_->inside; }
  ~Inside() { --communicator_->inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  // Returns when `is_over`, or when the communicator has been aborted or revoked: false.
  template <class Condition>
  [[nodiscard]] bool wait_until(const Condition& is_over) const {
    while (!communicator_->state->is_aborted && !is_over()) std::this_thread::yield();
    return !communicator_->state->is_aborted;
  }

 private:
  const ncclComm_t communicator_;
};

// False: the communicator has been aborted or revoked.
bool may_start(const Inside& inside, CommunicatorState& state, const std::vector<Call>& calls) {
  using Clock = std::chrono::steady_clock;
  const doubles::Fault fault = doubles::planned_fault(state.world.rank(), launches + 1);
  if (fault == doubles::Fault::stuck) return inside.wait_until([] { return false; });
  if (fault == doubles::Fault::slow) {
    const Clock::time_point end = Clock::now() + slow_call;
    if (!inside.wait_until([&] { return Clock::now() >= end; })) return false;
  }
  return inside.wait_until(
      [&] { return !doubles::has_collective(calls) || state.world.all_have_connected(); });
}

ncclResult_t launch(ncclComm_t communicator, cudaStream_t stream, std::vector<Call> calls) {
  const Inside inside(communicator);
  const doubles::StreamPointer where = doubles::stream_of(stream);
  const std::shared_ptr<CommunicatorState>& state = communicator->state;
  if (communicator->is_revoked) return refuse(communicator, ncclInvalidUsage, "it has been revoked");
  if (state->error != ncclSuccess) return refuse(communicator, state->error, "the double was told to fail");
  if (!may_start(inside, *state, calls)) {
    ++launches;
    return ncclInternalError;
  }
  const bool is_captured = doubles::streams().capture_status(where) != cudaStreamCaptureStatusNone;
  std::vector<doubles::Place> after;
  if (!is_captured && state->latest.stream) after.push_back(state->latest);
  const auto make = [state, calls = std::move(calls)]() -> doubles::Step {
    return [made = std::make_shared<doubles::Launch>(state, calls, ++launches)] { return made->step(); };
  };
  doubles::streams().add_made(where, make, std::move(after));
  if (!is_captured) state->latest = doubles::streams().end_of(where);
  return ncclSuccess;
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

// The communicator of a rank, when all ranks are there.
ncclResult_t join(doubles::WorldName name, int rank, int ranks, ncclComm_t* made) {
  auto communicator = std::make_unique<ncclComm>();
  communicator->state = std::make_shared<CommunicatorState>(name, rank, ranks);
  doubles::World& world = communicator->state->world;
  if (!Inside(communicator.get()).wait_until([&] { return world.join(); })) return ncclInternalError;
  if (world.rank_on_same_device() >= 0) {
    std::fprintf(stderr, "NCCL double: duplicate GPU detected\n");
    return ncclInvalidUsage;
  }
  *made = communicator.release();
  return ncclSuccess;
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
  if (config != nullptr && config->blocking == 0) return ncclInvalidArgument;
  return join(name, rank, ranks, made);
}
DOUBLE ncclResult_t ncclCommSplit(ncclComm_t communicator, int color, int key, ncclComm_t* made,
                                  ncclConfig_t* config) {
  if (config != nullptr && config->blocking == 0) return ncclInvalidArgument;
  const Inside inside(communicator);
  *made = nullptr;
  doubles::World& world = communicator->state->world;
  if (doubles::planned_fault(world.rank(), launches + 1) == doubles::Fault::crash) kill(getpid(), SIGKILL);
  const auto place =
      world.split(++communicator->splits, color, key,
                  [&](const std::function<bool()>& is_over) { return inside.wait_until(is_over); });
  if (communicator->state->is_aborted) return ncclInternalError;
  return place ? join(place->name, place->rank, place->size, made) : ncclSuccess;
}
DOUBLE ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* result) {
  *result = communicator->state->error;
  if (*result != ncclSuccess) (void)refuse(communicator, *result, "the double was told to fail");
  return ncclSuccess;
}
DOUBLE ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->state->hangs_in_abort.wait(true);  // for ever
  communicator->state->is_aborted = true;
  while (communicator->inside > 0) std::this_thread::yield();
  delete communicator;
  return ncclSuccess;
}
DOUBLE ncclResult_t ncclCommRevoke(ncclComm_t communicator, int /*flags*/) {
  if (std::getenv("NCCL_DOUBLE_CANNOT_REVOKE") != nullptr) return ncclInvalidUsage;
  communicator->state->hangs_in_abort.wait(true);  // for ever
  communicator->is_revoked = true;
  communicator->state->is_aborted = true;
  while (communicator->inside > 0 || communicator->state->running > 0) std::this_thread::yield();
  return ncclSuccess;
}
DOUBLE ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const Inside inside(communicator);
  return inside.wait_until([&] { return communicator->state->running == 0; }) ? ncclSuccess
                                                                              : ncclInternalError;
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
  communicator->operators.push_back({ncclSum, doubles::value_at(scalar, type)});
  return ncclSuccess;
}
DOUBLE ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t communicator) {
  const std::lock_guard lock(communicator->mutex);
  return static_cast<std::size_t>(op) < ncclNumOps + communicator->operators.size() ? ncclSuccess
                                                                                    : ncclInvalidArgument;
}

}  // extern "C"
