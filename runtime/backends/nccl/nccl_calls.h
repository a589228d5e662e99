// Our operations as calls of NCCL. Each only starts, on one stream and within a group of NCCL.
#pragma once

#include <span>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/backends/nccl/nccl_communicator.h"

namespace dlaunch::internal {

// The calls of one group of NCCL.
class NcclCalls {
 public:
  // Begins the group.
  NcclCalls(const NcclFunctions& nccl, const NcclCommunicator& communicator, cudaStream_t stream, int rank,
            int size);
  ~NcclCalls();
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;

  void all_reduce(const Tensor& tensor, const Reduction& reduction);
  void broadcast(const Tensor& tensor, int src);
  void all_gather(std::span<const Tensor> outputs, const Tensor& input);
  void barrier();
  void reduce(const Tensor& tensor, int dst, const Reduction& reduction);
  void gather(std::span<const Tensor> outputs, const Tensor& input, int dst);
  void scatter(const Tensor& output, std::span<const Tensor> inputs, int src);
  void reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, const Reduction& reduction);
  void all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs);
  void send(const Tensor& tensor, int dst);
  void recv(const Tensor& tensor, int src);

  struct Outcome {
    ncclResult_t result;
    const char* call;  // that has failed, if one has
  };
  // Ends the group: its calls are in the stream afterwards, or one has failed. Once.
  Outcome start();

 private:
  struct How;
  How how(DType dtype, const Reduction& reduction);
  void note(ncclResult_t result, const char* call);

  const NcclFunctions& nccl_;
  const NcclCommunicator& communicator_;
  const cudaStream_t stream_;
  const int rank_;
  const int size_;
  bool is_open_ = true;
  Outcome outcome_ = {ncclSuccess, ""};
  std::vector<ncclRedOp_t> made_;
};

}  // namespace dlaunch::internal
