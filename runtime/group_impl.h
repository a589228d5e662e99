// What a ProcessGroup handle points to.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "dlaunch/process_group.h"

namespace dlaunch {
inline namespace v1 {

// Checks the arguments, numbers the operations, bounds them in time, chooses the backend by the tensor's
// device, and keeps the group's end: the first error breaks it, and every later call says what that was.
class GroupImpl {
 public:
  struct DeviceBackend {
    Device::Kind device;
    std::shared_ptr<Backend> backend;  // may serve several devices
  };
  struct Description {
    std::string name;
    int rank;
    int size;
    std::chrono::milliseconds timeout;
    std::string backend;  // as get_backend() says it
  };

  GroupImpl(Description description, std::vector<DeviceBackend> backends);
  ~GroupImpl();
  GroupImpl(const GroupImpl&) = delete;
  GroupImpl& operator=(const GroupImpl&) = delete;

  static ProcessGroup handle(std::shared_ptr<GroupImpl> impl) { return ProcessGroup(std::move(impl)); }

  [[nodiscard]] const Description& description() const { return description_; }

  // As ProcessGroup's.
  Work all_reduce(const Tensor& tensor, ReduceOp op, const OperationOptions& options);
  Work broadcast(const Tensor& tensor, int src, const OperationOptions& options);
  Work all_gather(std::span<const Tensor> outputs, const Tensor& input, const OperationOptions& options);
  Work all_gather_into_tensor(const Tensor& output, const Tensor& input, const OperationOptions& options);
  Work barrier(const OperationOptions& options);
  void abort(const std::string& reason);

  // Completes what was started and leaves; later calls throw.
  void destroy();

 private:
  template <class Start>
  Work run(const char* name, const OperationOptions& options, std::optional<Device> device,
           const Start& start);
  void fail(const std::exception_ptr& error);
  void end_backends();
  Backend& usable_backend(std::optional<Device> device) const;  // no device: any
  std::vector<Backend*> all_backends() const;
  [[noreturn]] void refuse(const char* operation, const std::string& reason) const;
  void require_writable(const char* operation, const Tensor& tensor) const;
  void require_same_kind(const char* operation, const Tensor& output, const Tensor& input) const;

  const Description description_;

  std::mutex call_mutex_;       // held during a call: one at a time
  std::uint64_t sequence_ = 0;  // of the latest operation; protected by call_mutex_

  std::mutex abort_mutex_;  // held while backends are aborted, so that they do not end meanwhile

  mutable std::mutex state_mutex_;  // the last one taken; never held while calling out
  std::vector<DeviceBackend> backends_;
  std::exception_ptr first_error_;
  bool destroyed_ = false;
};

}  // namespace v1
}  // namespace dlaunch
