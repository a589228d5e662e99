// A group's backend over NCCL: starts an asynchronous operation on the communicator's stream, after the
// caller's, and one that the caller waits for on the caller's own stream, which need not wait for another one
// then. NCCL itself orders what one communicator has on several streams, if there is more than one rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/backends/nccl/nccl_calls.h"
#include "runtime/backends/nccl/nccl_communicator.h"
#include "runtime/backends/nccl/nccl_library.h"
#include "runtime/backends/nccl/nccl_watchdog.h"
#include "runtime/base/group_end.h"
#include "runtime/cuda/cuda_events.h"

namespace dlaunch::internal {

class NcclBackend final : public Backend {
 public:
  // With a device named, the ranks connect at once, by a split of the parent's communicator if there is one;
  // else at the first operation.
  explicit NcclBackend(const BackendContext& context);
  ~NcclBackend() override;
  NcclBackend(const NcclBackend&) = delete;
  NcclBackend& operator=(const NcclBackend&) = delete;

  Work all_reduce(const Tensor& tensor, const Reduction& reduction, const Operation& operation) override;
  Work broadcast(const Tensor& tensor, int src, const Operation& operation) override;
  Work all_gather(std::span<const Tensor> outputs, const Tensor& input, const Operation& operation) override;
  Work barrier(const Operation& operation) override;
  Work reduce(const Tensor& tensor, int dst, const Reduction& reduction, const Operation& operation) override;
  Work gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
              const Operation& operation) override;
  Work scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
               const Operation& operation) override;
  Work reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, const Reduction& reduction,
                      const Operation& operation) override;
  Work all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                  const Operation& operation) override;
  Work all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                            const Operation& operation) override;
  Work send(const Tensor& tensor, int dst, Tag tag, const Operation& operation) override;
  Work recv(const Tensor& tensor, int src, Tag tag, const Operation& operation) override;
  std::string why_not(const CallSubject& call) override;
  bool is_split_for_groups() override { return named_device_.has_value(); }  // then the ranks have connected
  void split_without_this_rank(Deadline deadline, const LossCheck& check) override;
  void begin_together() override;
  void end_together() override;
  void abort(const std::string& reason) noexcept override;
  void shutdown() noexcept override;
  void leave(Deadline deadline) noexcept override;

 private:
  using Body = std::function<void(NcclCalls&)>;
  // What the watchdog knows of a call.
  struct Place {
    std::uint64_t sequence;  // 0: a message
    Deadline deadline;
    bool async;
    UnseenOperation* unseen = nullptr;  // null: the caller wants a Work
    int sender = -1;                    // of a receive
  };
  static Place collective(const Operation& operation) {
    return {operation.sequence, operation.deadline, operation.async, operation.unseen};
  }
  static Place message(const Operation& operation, int sender = -1) {
    return {0, operation.deadline, operation.async, nullptr, sender};
  }
  // Where an operation runs.
  struct Track {
    int device;
    bool is_captured;                          // the current stream is, into a graph
    std::optional<cudaStream_t> callers = {};  // none: the communicator's stream
  };
  // Calls of one thread between begin_together() and end_together().
  struct Batch {
    std::vector<Body> bodies;
    std::vector<NcclWatchdog::Watched> works;
    std::optional<int> device;
  };

  template <class Call>
  Work start(int device, const Place& place, const Call& call);
  Work join_batch(Batch& batch, int device, const Place& place, Body body);
  // Reached when the device comes to what was started, and when that has ended.
  struct Events {
    CudaEvent& begin;
    CudaEvent& end;
    bool has_begin = false;
  };
  void record_in(cudaStream_t stream, CudaEvent& event);
  // Puts what `call` starts into the stream, between the events.
  template <class Call>
  void enqueue(const Track& track, const Place& place, const Call& call, Events& events);
  // Without a Work.
  template <class Call>
  void start_unseen(const Track& track, const Place& place, const Call& call);
  template <class Call>
  void start_in(const NcclCommunicator& with, cudaStream_t stream, const Place& place, const Call& call);
  // Of a group of one rank: NCCL has no kernel then, whose order it would see to.
  void wait_for_latest(cudaStream_t stream) const;
  [[nodiscard]] WorkSource source_of(const CudaEvent& end, const Track& track) const;
  // What was started just now: the watchdog sees to its end, or it is a part of a graph.
  void hand_over(NcclWatchdog::Watched started, const Track& track);
  [[nodiscard]] Track track_of(int device, const Place& place) const;
  // Whether the calling thread's current stream is being captured into a graph.
  [[nodiscard]] bool is_capturing(int device) const;

  void connect(int device, BackendStore& store, Deadline deadline, const LossCheck& check);
  void adopt(std::unique_ptr<NcclCommunicator> made);
  void require_no_end();
  // Together with all ranks, see NcclCommunicator::split(). An error ends this group as well.
  std::unique_ptr<NcclCommunicator> split(int color, int key, Deadline deadline, const LossCheck& check);
  NcclCommunicator& communicator(int device, Deadline deadline);
  [[nodiscard]] NcclPatience patience(Deadline deadline, const LossCheck& check, std::string waits_for);
  [[nodiscard]] NcclWatchdog::Outside outside();
  void check_communicator();
  std::exception_ptr give_up(std::exception_ptr reason);
  std::exception_ptr end_communicator(std::exception_ptr reason);
  void end_process_if_wanted(const std::exception_ptr& reason) const;
  // Of this thread; null: it has none.
  Batch* own_batch();

  const NcclFunctions& nccl_;
  const int rank_;
  const int size_;
  const std::optional<int> named_device_;
  const WriteLog log_;
  const std::shared_ptr<Backend> control_plane_;
  const std::shared_ptr<BackendStore> store_;
  const LossCheck check_;
  const bool waits_block_;
  const bool failure_ends_process_;
  const std::string group_;
  CudaEvents events_;

  GroupEnd end_;
  std::atomic<int> device_ = -1;  // of the communicator; -1: there is none yet
  std::atomic<int> open_batches_ = 0;
  std::mutex batches_mutex_;
  std::map<std::thread::id, Batch> batches_;  // protected by batches_mutex_; each is its thread's
  std::timed_mutex mutex_;                    // held during all calls of NCCL
  // protected by mutex_
  std::unique_ptr<NcclCommunicator> communicator_;
  struct {
    cudaStream_t stream = nullptr;
    cudaEvent_t end = nullptr;  // null: there was none
  } latest_;                    // operation of a group of one rank
  // communicator_, for the thread that interrupts the one with the lock
  std::atomic<NcclCommunicator*> connected_ = nullptr;
  std::atomic<bool> is_leaving_ = false;  // the process ends: CUDA may be gone
  std::atomic<bool> is_aborted_ = false;  // by a call
  bool has_failed_by_itself_ = false;     // the watchdog's
  NcclWatchdog watchdog_;                 // last: its thread uses the others
};

}  // namespace dlaunch::internal
