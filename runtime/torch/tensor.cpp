#include "dlaunch/torch/tensor.h"

#include <ATen/ATen.h>
#include <torch/version.h>

#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/torch/devices.h"

namespace dlaunch::torch {
inline namespace v1 {

namespace {

constexpr std::pair<at::ScalarType, DType> types[] = {
    {at::kChar, DType::int8},
    {at::kShort, DType::int16},
    {at::kInt, DType::int32},
    {at::kLong, DType::int64},
    {at::kByte, DType::uint8},
    {at::kBool, DType::boolean},
    {at::kHalf, DType::float16},
    {at::kBFloat16, DType::bfloat16},
    {at::kFloat, DType::float32},
    {at::kDouble, DType::float64},
    {at::kComplexFloat, DType::complex64},
    {at::kComplexDouble, DType::complex128},
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    {at::kFloat8_e4m3fn, DType::float8_e4m3},
    {at::kFloat8_e5m2, DType::float8_e5m2},
#endif
};

[[noreturn]] void reject(const at::Tensor& tensor, const std::string& reason) {
  throw DistError("a tensor of " + std::string(c10::toString(tensor.scalar_type())) + " " +
                  c10::str(tensor.sizes()) + " " + reason);
}

}  // namespace

std::optional<DType> dtype_of(at::ScalarType type) {
  for (const auto& [theirs, ours] : types)
    if (theirs == type) return ours;
  return std::nullopt;
}

at::ScalarType scalar_type_of(DType dtype) {
  for (const auto& [theirs, ours] : types)
    if (ours == dtype) return theirs;
  throw DistError("LibTorch has no dtype " + std::string(to_string(dtype)));
}

Tensor view_of(const at::Tensor& tensor) {
  if (!tensor.defined()) throw DistError("a tensor is undefined");
  const std::optional<DType> dtype = dtype_of(tensor.scalar_type());
  if (!dtype) reject(tensor, "has a dtype that libdlaunch does not know");
  if (tensor.layout() != at::kStrided) reject(tensor, "is sparse, or has another layout that is not strided");
  if (const auto reason = internal::why_not_on(tensor.device())) reject(tensor, *reason);
  if (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg())
    reject(tensor, "is not contiguous: call contiguous()");
  const std::int64_t numel = tensor.numel();
  const bool fits = static_cast<std::size_t>(tensor.dim()) <= Tensor::max_dims;
  const std::span<const std::int64_t> shape =
      fits ? std::span(tensor.sizes().data(), tensor.sizes().size()) : std::span(&numel, 1);
  return Tensor(tensor.data_ptr(), *dtype, shape, internal::device_of(tensor.device()));
}

at::Tensor tensor_of(const Tensor& view) {
  const at::Device device = internal::device_of(view.device());
  if (const auto reason = internal::why_not_on(device)) throw DistError(view.to_string() + " " + *reason);
  return at::for_blob(view.data(), at::IntArrayRef(view.shape().data(), view.shape().size()))
      .options(at::TensorOptions().dtype(scalar_type_of(view.dtype())).device(device))
      .target_device(device)
      .make_tensor();
}

}  // namespace v1
}  // namespace dlaunch::torch
