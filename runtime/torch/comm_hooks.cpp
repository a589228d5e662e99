#include "dlaunch/torch/comm_hooks.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "dlaunch/process_group.h"
#include "dlaunch/torch/tensor.h"
#include "runtime/torch/devices.h"

namespace dlaunch::torch {
inline namespace v1 {

namespace {

BucketReduction reduce_compressed(const GradientBucket& bucket, at::ScalarType half) {
  const at::NoGradGuard no_grad;
  const at::Tensor buffer = tensor_of(bucket.buffer);
  const at::Tensor share = at::scalar_tensor(1. / bucket.group.size(), at::dtype(buffer.dtype()));
  at::Tensor halves = at::empty(buffer.sizes(), buffer.options().dtype(half));
  at::mul_out(halves, buffer, share);
  Work work =
      bucket.group.all_reduce(view_of(halves), ReduceOp::sum, {.async_op = true, .timeout = bucket.timeout});
  work.then([halves](const Work& /*ended*/) {});  // its memory
  return {std::move(work), [buffer, halves] {
            const at::NoGradGuard finish_no_grad;
            internal::keep_for_current_stream(halves);
            buffer.copy_(halves);
          }};
}

CommHook compress_hook(CommHook on_cpu, at::ScalarType half) {
  return [on_cpu = std::move(on_cpu), half](const GradientBucket& bucket) -> BucketReduction {
    if (bucket.buffer.device().kind == Device::Kind::cpu) return on_cpu(bucket);
    const DType dtype = bucket.buffer.dtype();
    if (dtype != DType::float32 && dtype != DType::float64) return allreduce_hook(bucket);
    return reduce_compressed(bucket, half);
  };
}

}  // namespace

CommHook fp16_compress_hook() { return compress_hook(dlaunch::fp16_compress_hook(), at::kHalf); }
CommHook bf16_compress_hook() { return compress_hook(dlaunch::bf16_compress_hook(), at::kBFloat16); }

}  // namespace v1
}  // namespace dlaunch::torch
