#include "runtime/backends/nccl/nccl_calls.h"

#include <algorithm>
#include <utility>

#include "dlaunch/float8.h"
#include "dlaunch/half.h"
#include "runtime/backends/nccl/nccl_types.h"

namespace dlaunch::internal {

namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

bool is_empty(std::span<const Tensor> tensors) {
  return std::ranges::all_of(tensors, [](const Tensor& tensor) { return tensor.nbytes() == 0; });
}

// Of one size, and each begins where the one before it ends.
bool are_one_array(std::span<const Tensor> tensors) {
  const std::size_t length = tensors.front().nbytes();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const auto* const expected = static_cast<const std::byte*>(tensors[i - 1].data()) + length;
    if (tensors[i].nbytes() != length || tensors[i].data() != expected) return false;
  }
  return true;
}

}  // namespace

struct NcclCalls::How {
  ncclDataType_t type;
  std::size_t units;
  ncclRedOp_t op;
};

NcclCalls::NcclCalls(const NcclFunctions& nccl, const NcclCommunicator& communicator, cudaStream_t stream,
                     int rank, int size)
    : nccl_(nccl), communicator_(communicator), stream_(stream), rank_(rank), size_(size) {
  note(nccl_.ncclGroupStart(), "ncclGroupStart");
}

NcclCalls::~NcclCalls() {
  if (is_open_) (void)nccl_.ncclGroupEnd();
}

void NcclCalls::note(ncclResult_t result, const char* call) {
  if (outcome_.result == ncclSuccess && result != ncclSuccess) outcome_ = {result, call};
}

NcclCalls::Outcome NcclCalls::start() {
  is_open_ = false;
  note(nccl_.ncclGroupEnd(), "ncclGroupEnd");
  if (outcome_.result == ncclSuccess) {
    for (const ncclRedOp_t op : made_) (void)nccl_.ncclRedOpDestroy(op, communicator_.handle());
  }
  return outcome_;
}

NcclCalls::How NcclCalls::how(DType dtype, const Reduction& reduction) {
  const NcclArithmetic plain = nccl_arithmetic(dtype, reduction.op);
  How result{plain.type, plain.units, plain.op};
  if (reduction.op != ReduceOp::premul_sum) return result;
  double wide = reduction.factor;
  float single = static_cast<float>(reduction.factor);
  Float16 half = Float16::from(single);
  BFloat16 brain = BFloat16::from(single);
  Float8E4M3 e4m3 = Float8E4M3::from(single);
  Float8E5M2 e5m2 = Float8E5M2::from(single);
  void* factor = &single;
  if (plain.type == ncclFloat64) factor = &wide;
  if (plain.type == ncclFloat16) factor = &half;
  if (plain.type == ncclBfloat16) factor = &brain;
  if (dtype == DType::float8_e4m3) factor = &e4m3;
  if (dtype == DType::float8_e5m2) factor = &e5m2;
  note(nccl_.ncclRedOpCreatePreMulSum(&result.op, factor, plain.type, ncclScalarHostImmediate,
                                      communicator_.handle()),
       "ncclRedOpCreatePreMulSum");
  made_.push_back(result.op);
  return result;
}

void NcclCalls::all_reduce(const Tensor& tensor, const Reduction& reduction) {
  if (tensor.nbytes() == 0) return barrier();
  const How as = how(tensor.dtype(), reduction);
  note(nccl_.ncclAllReduce(tensor.data(), tensor.data(), tensor.numel() * as.units, as.type, as.op,
                           communicator_.handle(), stream_),
       "ncclAllReduce");
}

void NcclCalls::broadcast(const Tensor& tensor, int src) {
  if (tensor.nbytes() == 0) return barrier();
  note(nccl_.ncclBroadcast(tensor.data(), tensor.data(), tensor.nbytes(), ncclUint8, src,
                           communicator_.handle(), stream_),
       "ncclBroadcast");
}

void NcclCalls::all_gather(std::span<const Tensor> outputs, const Tensor& input) {
  if (is_empty(outputs)) return barrier();
  if (are_one_array(outputs)) {
    return note(nccl_.ncclAllGather(input.data(), outputs.front().data(), input.nbytes(), ncclUint8,
                                    communicator_.handle(), stream_),
                "ncclAllGather");
  }
  for (int rank = 0; rank < size_; ++rank) {
    const Tensor& output = outputs[index(rank)];
    if (output.nbytes() == 0) continue;
    const void* const from = rank == rank_ ? input.data() : output.data();
    note(nccl_.ncclBroadcast(from, output.data(), output.nbytes(), ncclUint8, rank, communicator_.handle(),
                             stream_),
         "ncclBroadcast");
  }
}

void NcclCalls::barrier() {
  note(nccl_.ncclAllReduce(communicator_.scratch(), communicator_.scratch(), 1, ncclFloat32, ncclSum,
                           communicator_.handle(), stream_),
       "ncclAllReduce");
}

void NcclCalls::reduce(const Tensor& tensor, int dst, const Reduction& reduction) {
  if (tensor.nbytes() == 0) return barrier();
  const How as = how(tensor.dtype(), reduction);
  note(nccl_.ncclReduce(tensor.data(), tensor.data(), tensor.numel() * as.units, as.type, as.op, dst,
                        communicator_.handle(), stream_),
       "ncclReduce");
}

void NcclCalls::gather(std::span<const Tensor> outputs, const Tensor& input, int dst) {
  if (input.nbytes() == 0) return barrier();
  send(input, dst);
  if (rank_ != dst) return;
  for (int rank = 0; rank < size_; ++rank) recv(outputs[index(rank)], rank);
}

void NcclCalls::scatter(const Tensor& output, std::span<const Tensor> inputs, int src) {
  if (output.nbytes() == 0) return barrier();
  if (rank_ == src) {
    for (int rank = 0; rank < size_; ++rank) send(inputs[index(rank)], rank);
  }
  recv(output, src);
}

void NcclCalls::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                               const Reduction& reduction) {
  if (is_empty(inputs)) return barrier();
  const How as = how(output.dtype(), reduction);
  if (are_one_array(inputs)) {
    return note(nccl_.ncclReduceScatter(inputs.front().data(), output.data(), output.numel() * as.units,
                                        as.type, as.op, communicator_.handle(), stream_),
                "ncclReduceScatter");
  }
  for (int rank = 0; rank < size_; ++rank) {
    const Tensor& input = inputs[index(rank)];
    if (input.nbytes() == 0) continue;
    note(nccl_.ncclReduce(input.data(), rank == rank_ ? output.data() : nullptr, input.numel() * as.units,
                          as.type, as.op, rank, communicator_.handle(), stream_),
         "ncclReduce");
  }
}

void NcclCalls::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs) {
  for (int rank = 0; rank < size_; ++rank) {
    send(inputs[index(rank)], rank);
    recv(outputs[index(rank)], rank);
  }
}

void NcclCalls::send(const Tensor& tensor, int dst) {
  if (tensor.nbytes() == 0) return;
  note(nccl_.ncclSend(tensor.data(), tensor.nbytes(), ncclUint8, dst, communicator_.handle(), stream_),
       "ncclSend");
}

void NcclCalls::recv(const Tensor& tensor, int src) {
  if (tensor.nbytes() == 0) return;
  note(nccl_.ncclRecv(tensor.data(), tensor.nbytes(), ncclUint8, src, communicator_.handle(), stream_),
       "ncclRecv");
}

}  // namespace dlaunch::internal
