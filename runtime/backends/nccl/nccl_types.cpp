#include "runtime/backends/nccl/nccl_types.h"

#include "runtime/backends/nccl/nccl_library.h"
#include "runtime/cuda/cuda_device.h"

namespace dlaunch::internal {

namespace {

constexpr int float8_version = 22400;  // the first that has them
constexpr int float8_capability = 90;  // of the first devices on which it reduces them
#if NCCL_VERSION_CODE >= 22400
constexpr bool is_built_with_float8 = true;
constexpr ncclDataType_t float8_e4m3 = ncclFloat8e4m3;
constexpr ncclDataType_t float8_e5m2 = ncclFloat8e5m2;
#else
constexpr bool is_built_with_float8 = false;
constexpr ncclDataType_t float8_e4m3 = ncclUint8;  // no call gets it
constexpr ncclDataType_t float8_e5m2 = ncclUint8;
#endif

bool is_float8(DType dtype) { return dtype == DType::float8_e4m3 || dtype == DType::float8_e5m2; }

int capability_of(const CudaFunctions& cuda, int device) {
  int major = 0;
  int minor = 0;
  require_cuda(cuda, cuda.cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
               "cudaDeviceGetAttribute");
  require_cuda(cuda, cuda.cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
               "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

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

std::string why_no_reduction_of_float8(DType dtype, Device device) {
  const NcclLibrary& library = NcclLibrary::get();
  const int capability = capability_of(library.functions(), device.index);
  return why_nccl_cannot_reduce_float8(dtype, library.version(), device, capability);
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
    case DType::float8_e4m3:
      return {float8_e4m3, 1, op_of(op)};
    case DType::float8_e5m2:
      return {float8_e5m2, 1, op_of(op)};
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
  if (!call.dtype || !call.op) return "";
  if (is_float8(*call.dtype) && call.device) return why_no_reduction_of_float8(*call.dtype, *call.device);
  return why_no_reduction(*call.dtype, *call.op);
}

std::string why_nccl_cannot_reduce_float8(DType dtype, int version, Device device, int capability) {
  const std::string what(to_string(dtype));
  if (!is_built_with_float8)
    return "this libdlaunch was built with NCCL before 2.24, which has no " + what + ": use backend gloo";
  if (version < float8_version) {
    return "NCCL " + std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) +
           " does not reduce " + what + ": use NCCL 2.24 or newer, or backend gloo";
  }
  if (capability < float8_capability) {
    return "NCCL reduces " + what + " on devices of compute capability 9.0 or higher, and " +
           to_string(device) + " has " + std::to_string(capability / 10) + "." +
           std::to_string(capability % 10) + ": use float16, or backend gloo";
  }
  return "";
}

}  // namespace dlaunch::internal
