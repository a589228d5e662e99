// The state behind a ProcessGroup handle.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "dlaunch/process_group.h"
#include "dlaunch/shared_memory.h"
#include "runtime/base/call_mutex.h"
#include "runtime/base/function_ref.h"
#include "runtime/base/hazard_pointer.h"
#include "runtime/base/own_process.h"
#include "runtime/base/quick_clock.h"
#include "runtime/base/short_array.h"
#include "runtime/group/argument_checks.h"
#include "runtime/group/call_comparison.h"
#include "runtime/group/group_description.h"
#include "runtime/group/profiler.h"
#include "runtime/record/recorder.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// Checks the arguments, numbers the operations, gives them deadlines, chooses the backend by the tensor's
// device, and stores the first error: it breaks the group, and every later call repeats it.
class GroupImpl final : private UnseenOperation::Observer {
 public:
  struct DeviceBackend {
    std::optional<Device::Kind> device;  // none: it is the control plane of the others only
    std::shared_ptr<Backend> backend;    // may serve several devices
    const BackendModule* module = nullptr;
    bool takes_every_call = false;  // the backend's answer; set by the group
  };
  // The owner of a message's tag: equal numbers of two owners are different tags.
  enum class Tags : std::uint8_t { program, objects, breakpoints };
  static Tag tag_of(Tags whose, std::uint32_t number) {
    return Tag{static_cast<std::uint8_t>(whose)} << 32U | number;
  }
  // `keys`: the group's own part of the store; may be null. The operations are recorded in
  // `recorder`.
  GroupImpl(GroupDescription description, std::vector<DeviceBackend> backends,
            std::shared_ptr<Store> keys = {}, GroupRecorder recorder = {});
  ~GroupImpl();
  GroupImpl(const GroupImpl&) = delete;
  GroupImpl& operator=(const GroupImpl&) = delete;

  static ProcessGroup handle(std::shared_ptr<GroupImpl> impl) { return ProcessGroup(std::move(impl)); }
  // Throws DistError if the handle is empty.
  static GroupImpl& of(const ProcessGroup& group) {
    if (!group.impl_) throw_empty();
    return *group.impl_;
  }

  [[nodiscard]] const GroupDescription& description() const { return description_; }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }  // now
  void set_timeout(std::chrono::milliseconds timeout);
  [[nodiscard]] const GroupRecorder& recorder() const { return recorder_; }

  // As ProcessGroup's.
  Work all_reduce(const Tensor& tensor, ReduceOp op, const OperationOptions& options);
  Work broadcast(const Tensor& tensor, int src, const OperationOptions& options);
  Work all_gather(std::span<const Tensor> outputs, const Tensor& input, const OperationOptions& options);
  Work all_gather_into_tensor(const Tensor& output, const Tensor& input, const OperationOptions& options);
  Work barrier(const OperationOptions& options, std::span<const int> device_ids = {});
  Work reduce(const Tensor& tensor, int dst, ReduceOp op, const OperationOptions& options);
  Work gather(std::span<const Tensor> outputs, const Tensor& input, int dst, const OperationOptions& options);
  Work scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
               const OperationOptions& options);
  Work reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, ReduceOp op,
                      const OperationOptions& options);
  Work reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op,
                             const OperationOptions& options);
  Work all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                  const OperationOptions& options);
  Work all_to_all_single(const Tensor& output, const Tensor& input,
                         std::span<const std::int64_t> output_splits,
                         std::span<const std::int64_t> input_splits, const OperationOptions& options);
  Work all_reduce_coalesced(std::span<const Tensor> tensors, ReduceOp op, const OperationOptions& options);
  Work all_gather_into_tensor_coalesced(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                        const OperationOptions& options);
  Work reduce_scatter_tensor_coalesced(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                       ReduceOp op, const OperationOptions& options);
  // `awaited`: the caller waits for the Work at once, so a backend may complete it on the caller's thread.
  Work isend(const Tensor& tensor, int dst, const MessageOptions& options, Tags tags = Tags::program,
             bool awaited = false);
  Work irecv(const Tensor& tensor, int src, const MessageOptions& options, Tags tags = Tags::program,
             bool awaited = false);
  std::vector<Work> batch_isend_irecv(std::span<const P2POp> ops);
  void monitored_barrier(std::optional<std::chrono::milliseconds> timeout, bool wait_all_ranks);
  void breakpoint(int rank);  // in group_breakpoint.cpp
  SharedMemory allocate_shared(std::size_t size);
  void abort(const std::string& reason);

  using Start = FunctionRef<Work(Backend&, const Operation&)>;
  // A call of this rank with checked arguments, which outlive it.
  struct OperationSpec {
    const char* name;
    std::optional<Device> device;         // none: any
    std::uint64_t bytes;                  // of this rank's data in the operation
    FunctionRef<std::string()> describe;  // what all ranks must agree on
    GroupRecorder::What record;
    FunctionRef<std::string()> splits = {};  // if sizes may differ between the ranks: splits_text()
    std::optional<ReduceOp> op = {};

    [[nodiscard]] CallSubject subject() const { return {.dtype = record.dtype, .op = op, .device = device}; }
  };
  // An operation that has not started; its arguments are checked and copied.
  struct Prepared {
    const char* name;
    Device device;
    std::uint64_t bytes;
    std::function<std::string()> describe;
    GroupRecorder::What record;
    std::function<Work(Backend&, const Operation&)> start;
    std::optional<ReduceOp> op = {};

    // REQUIRES: outlives the result.
    [[nodiscard]] OperationSpec spec() const { return {name, device, bytes, describe, record, {}, op}; }
  };
  [[nodiscard]] Prepared prepare_all_reduce_coalesced(std::vector<Tensor> tensors,
                                                      const Reduction& reduction) const;
  [[nodiscard]] Prepared prepare_all_gather_into_tensor(const Tensor& output, const Tensor& input) const;
  [[nodiscard]] Prepared prepare_reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                                                       const Reduction& reduction) const;
  // Starts all of them in this order, or none; one Work for all. `name`: for messages.
  Work run_together(const char* name, std::span<const Prepared> all, const OperationOptions& options);

  // Under DebugLevel::detail: returns when all ranks make this call, which is one of the compared calls.
  // Throws DistNetworkError if they do not.
  void compare_call(const std::string& call, Deadline deadline, const ErrorContext& context);
  // The backends from which those of new groups are made, together with all ranks.
  [[nodiscard]] std::vector<DeviceBackend> split_sources() const;
  // Throws DistNetworkError if one of these ranks is known to be lost.
  void throw_if_lost(std::span<const int> ranks) const;
  // A call to the store has failed. Throws DistNetworkError if the rank that served the store is lost (the
  // backends may detect that a moment later), else DistStoreError.
  [[noreturn]] void explain(const StoreError& error, const ErrorContext& context) const;
  [[noreturn]] void explain_lost_store(const std::string& what_it_says, const ErrorContext& context) const;

  // Whether this process is not a member. Its collectives and messages do nothing then, and the first one
  // logs a warning.
  bool skips_as_non_member(const char* operation) {
    if (description_.rank < 0) warn_as_non_member(operation);
    return description_.rank < 0;
  }

  // Completes running operations and leaves; later calls throw. Does nothing in a forked copy of the process.
  void destroy();

  // The process ends. Waits, until `deadline` at most, until the data of this rank's completed operations
  // have arrived and the others know that it has left, or why it gave up. Later calls throw.
  void leave(Deadline deadline);

 private:
  using Backends = std::vector<DeviceBackend>;

  [[noreturn]] static void throw_empty();
  void warn_as_non_member(const char* operation);

  // A running operation's entries in profiler and recorder.
  struct OperationTrace {
    std::uint64_t span;  // the profiler's
    RecordMark mark;
  };

  [[nodiscard]] static CallSubject subject_of_message(std::optional<DType> dtype,
                                                      std::optional<Device> device, Tag tag, int peer) {
    return {.dtype = dtype, .device = device, .is_message = true, .tag = tag, .peer = peer};
  }

  // With the checks of the operation.
  [[nodiscard]] ShortArray<Tensor> parts_to_gather(const Tensor& output, const Tensor& input) const;
  [[nodiscard]] ShortArray<Tensor> parts_to_scatter(const Tensor& output, const Tensor& input,
                                                    ReduceOp op) const;

  // One operation, from its number to its result.
  Work run(const OperationSpec& call, const OperationOptions& options, Start start);
  // Throws DistBackendError if the backend cannot carry out such a call.
  void require_offered(Backend& backend, const char* name, const CallSubject& call) const;
  Work run_message(const OperationSpec& call, int peer, Tag tag, const MessageOptions& options, bool awaited,
                   Start start);
  Work finish_with_context(const WorkSource& outer, const Work& inner, const ErrorContext& context,
                           const OperationTrace& trace);
  void follow_on_device(const Work& inner, const RecordMark& mark) const;
  // In group_unseen.cpp: operations that go on after their call has returned, and that the program has no
  // Work of.
  void finish_unseen(const Work& inner, const ErrorContext& context, const OperationTrace& trace);
  void fail_unseen(const std::exception_ptr& raw, const ErrorContext& context);
  // What the backend may take is in the frame of its call, and becomes notes only then.
  struct UnseenCall : UnseenOperation {
    const char* call;  // a literal
    std::uint64_t sequence;
    std::uint64_t span;
    const RecordMark& mark;
  };
  struct UnseenNotes;
  void on_start(UnseenOperation& operation, bool reports_begin) noexcept override;
  void on_begin(const UnseenOperation& operation) noexcept override;
  void on_end(const UnseenOperation& operation, const std::exception_ptr& error) noexcept override;
  // The profiler's number; 0: it has no listener.
  [[nodiscard]] std::uint64_t begin_span(const OperationSpec& call, std::uint64_t sequence) const {
    Profiler* const listening = listening_profiler();
    return listening != nullptr ? listening->begin(call.name, description_, sequence, call.bytes) : 0;
  }
  void report_end(std::uint64_t span, const RecordMark& mark, bool success) const {
    recorder_.end(mark, success);
    if (span != 0) profiler().end(span, success);
  }
  void report_end(const OperationTrace& trace, bool success) const {
    report_end(trace.span, trace.mark, success);
  }
  void compare_calls(const CallComparison::Call& call, const ErrorContext& context);
  // Runs `work`; errors of the store and losses of ranks in it become errors of the call of `context`.
  void explain_errors(const ErrorContext& context, const std::function<void()>& work) const;
  void throw_if_lost() const;
  [[nodiscard]] std::vector<int> departed() const;
  [[nodiscard]] std::exception_ptr located(const std::exception_ptr& error, ErrorContext context) const;
  // From now on. None: the group's timeout.
  [[nodiscard]] Timeout timeout_for(const char* name,
                                    std::optional<std::chrono::milliseconds> timeout) const {
    const std::chrono::milliseconds length = timeout ? *timeout : this->timeout();
    if (!is_timeout(length)) reject(description_, name, no_timeout_at_all);
    return {QuickClock::now(), length};
  }
  bool fail(const std::exception_ptr& error, std::optional<std::string> aborted = {});
  void record_loss(const std::exception_ptr& error) const;
  [[nodiscard]] std::optional<std::string> aborted_here() const;
  void end_backends();
  // For such a device; none: any. Throws if there is none, or the group is broken or destroyed.
  [[nodiscard]] std::shared_ptr<Backend> usable_backend(const char* operation,
                                                        std::optional<Device> device) const;
  [[nodiscard]] const DeviceBackend& usable_backend(const Backends* among, const char* operation,
                                                    const std::optional<Device>& device) const {
    if (is_usable_ && among != nullptr) {
      for (const DeviceBackend& entry : *among) {
        if (entry.device && (!device || entry.device == device->kind)) return entry;
      }
    }
    throw_unusable(operation, device);
  }
  [[noreturn]] void throw_unusable(const char* operation, const std::optional<Device>& device) const;
  [[nodiscard]] std::vector<std::shared_ptr<Backend>> all_backends() const;

  // The parts of breakpoint().
  struct Stop {
    int rank;  // the one that stops
    Store& keys;
    ErrorContext context;         // of the call
    std::function<void()> agree;  // throws if another rank has called with a different `rank`
  };
  void rendezvous_at(const Stop& stop);
  void hold(const Stop& stop);
  void await_release(const Stop& stop);
  void release_held_ranks(const Stop& stop);

  // Before any lock is taken.
  void require_own_process(const char* operation) const {
    if (!own_process_.is_this()) reject(description_, operation, forked_copy);
  }
  Work run_pairs(const char* operation, std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                 const OperationOptions& options,
                 const std::function<Prepared(const Tensor& output, const Tensor& input)>& prepare);

  const OwnProcess own_process_;  // no lock is taken in any other
  const GroupDescription description_;
  const std::shared_ptr<Store> keys_;
  const GroupRecorder recorder_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic_flag non_member_warned_;

  CallMutex call_mutex_;                     // held during a collective's call: one at a time
  std::uint64_t sequence_ = 0;               // of the latest collective; protected by call_mutex_
  std::atomic<std::uint64_t> messages_ = 0;  // sends and receives started
  CallComparison comparison_;  // compare(): protected by call_mutex_; barrier(): by barrier_mutex_

  std::mutex barrier_mutex_;  // held during a monitored barrier: one at a time
  std::uint64_t barriers_ = 0;

  std::mutex abort_mutex_;  // held while backends are aborted, so that they are not destroyed meanwhile

  // Null: the group has ended. Replaced with call_mutex_ and abort_mutex_ held.
  HazardPointer<const Backends> backends_;

  mutable std::mutex state_mutex_;  // the last one taken; never held while calling out
  std::uint64_t breakpoints_ = 0;   // reached
  std::exception_ptr first_error_;
  std::optional<std::string> aborted_;  // the reason, if this rank has called abort()
  bool destroyed_ = false;
  std::atomic<bool> is_usable_ = true;  // neither broken nor destroyed; written with state_mutex_ held
};

}  // namespace dlaunch::internal
