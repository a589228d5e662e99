// A group's backend over MPI. Collectives run one after another: asynchronous ones on a thread of the group,
// synchronous ones on the caller's.
#pragma once

#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/backend/operation_queue.h"
#include "runtime/backends/mpi/mpi_group.h"
#include "runtime/backends/mpi/mpi_messages.h"

namespace dlaunch::internal {

class MpiBackend final : public Backend {
 public:
  explicit MpiBackend(const BackendContext& context) : group_(context) {}
  ~MpiBackend() override;

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
  bool takes_every_call() noexcept override { return true; }
  bool takes_device_memory(const CallSubject& call) override;
  void check() override;
  std::vector<int> departed() override;
  void abort(const std::string& reason) noexcept override;
  void shutdown() noexcept override;

 private:
  template <class Body, class... Arguments>
  Work start(const Operation& operation, std::size_t bytes, Body body, const Arguments&... arguments);

  MpiGroup group_;
  bool shut_down_ = false;
  MpiMessages messages_{group_};
  OperationQueue queue_;  // last: its thread uses the others
};

}  // namespace dlaunch::internal
