// CUDA tensors on a group's backend for CPU tensors. An operation waits for the caller's current stream, its
// data are copied to pinned memory, the backend carries it out there, and the result is copied back. A call
// that the backend takes on device memory itself is not copied. Nothing of CUDA is loaded before the first
// one.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/base/group_end.h"
#include "runtime/staging/device_copies.h"
#include "runtime/staging/staging_thread.h"

namespace dlaunch::internal {

// The module of this process, loaded at the first call; null: there is none, and `problem` becomes one
// clause.
const StagingModule* staging_module(std::string& problem);

// Streams: a call that is not asynchronous returns when the result is on the device. The Work of an
// asynchronous one is on a stream as soon as the result is being copied back: until then wait() blocks.
//
// Order: the host's backend gets collectives in the order of the program's calls, also if tensors on the CPU
// and on devices take turns: a call with CPU tensors waits until the earlier ones with CUDA tensors have
// reached the backend (enter()). Messages of CUDA tensors are in order among themselves.
class StagedBackend final : public Backend {
 public:
  // `inner`: shared with the group, which calls it for CPU tensors.
  StagedBackend(std::shared_ptr<Backend> inner, int rank);
  ~StagedBackend() override;
  StagedBackend(const StagedBackend&) = delete;
  StagedBackend& operator=(const StagedBackend&) = delete;

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
  // Of an operation with CPU tensors.
  void enter(std::uint64_t sequence) noexcept override;
  void abort(const std::string& reason) noexcept override;
  void shutdown() noexcept override;
  void leave(Deadline deadline) noexcept override;

 private:
  using Kind = StagingThread::Kind;

  Work start(Kind kind, std::vector<StagedPart> parts, const Operation& operation);
  // On the caller's thread.
  Work run(std::unique_ptr<StagedCall> call, Kind kind);
  std::shared_ptr<DeviceCopies> copies_of(int device, Kind kind);
  const std::shared_ptr<PinnedMemory>& pinned_memory();

  const std::shared_ptr<Backend> inner_;
  const int rank_;
  GroupEnd end_;
  std::mutex mutex_;
  // protected by mutex_
  std::shared_ptr<PinnedMemory> memory_;
  // By device; collectives and messages have streams of their own, since a message must not wait for a
  // collective.
  std::map<std::pair<int, bool>, std::shared_ptr<DeviceCopies>> copies_;
  StagingThread thread_;  // last: it uses the others
};

}  // namespace dlaunch::internal
