#include "runtime/backends/nccl/nccl_types.h"

namespace dlaunch::internal {

namespace {

std::string why_no_reduction(DType dtype, ReduceOp op) {
  if (dtype == DType::int16) return "NCCL does not reduce int16: use int32, or backend gloo";
  const bool is_bitwise = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  const bool has_equal = dtype == DType::boolean && op != ReduceOp::bxor;  // of bools these are min and max
  if (is_bitwise && !has_equal) {
    return "NCCL has no bitwise " + std::string(to_string(op)) +
           ": reduce a tensor on the CPU with backend gloo";
  }
  return "";
}

ncclRedOp_t op_of_bool(ReduceOp op) {
  const bool is_and = op == ReduceOp::product || op == ReduceOp::min || op == ReduceOp::band;
  return is_and ? ncclMin : ncclMax;
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return ncclProd;
    case ReduceOp::min:
    case ReduceOp::band:
      return ncclMin;
    case ReduceOp::max:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return ncclMax;
    case ReduceOp::avg:
      return ncclAvg;
    case ReduceOp::sum:
    case ReduceOp::premul_sum:
      return ncclSum;
  }
  return ncclSum;
}

}  // namespace

NcclArithmetic nccl_arithmetic(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::int8:
      return {ncclInt8, 1, op_of(op)};
    case DType::boolean:
      return {ncclUint8, 1, op_of_bool(op)};
    case DType::int16:
    case DType::uint8:
      return {ncclUint8, 1, op_of(op)};
    case DType::int32:
      return {ncclInt32, 1, op_of(op)};
    case DType::int64:
      return {ncclInt64, 1, op_of(op)};
    case DType::float16:
      return {ncclFloat16, 1, op_of(op)};
    case DType::bfloat16:
      return {ncclBfloat16, 1, op_of(op)};
    case DType::float32:
      return {ncclFloat32, 1, op_of(op)};
    case DType::float64:
      return {ncclFloat64, 1, op_of(op)};
    case DType::complex64:
      return {ncclFloat32, 2, op_of(op)};
    case DType::complex128:
      return {ncclFloat64, 2, op_of(op)};
  }
  return {ncclUint8, 1, op_of(op)};
}

std::string why_nccl_cannot(const CallSubject& call, int rank) {
  if (call.is_message) {
    if (call.peer == any_source) return "NCCL cannot receive from any rank: name the source";
    if (call.tag != 0)
      return "NCCL has no tags: messages between two ranks match in the order of their calls";
    if (call.peer == rank) return "a rank cannot send to itself over NCCL: copy the tensor";
    return "";
  }
  return call.dtype && call.op ? why_no_reduction(*call.dtype, *call.op) : "";
}

}  // namespace dlaunch::internal
