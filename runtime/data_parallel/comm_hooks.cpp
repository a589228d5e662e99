#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "dlaunch/data_parallel.h"
#include "dlaunch/error.h"
#include "dlaunch/half.h"

namespace dlaunch {
inline namespace v1 {

namespace {

// `halves`: memory that is used again in each step; the reduction holds it until it has ended.
template <class Half, class Full>
Work reduce_compressed(const GradientBucket& bucket, const std::shared_ptr<std::vector<Half>>& halves) {
  const std::span<Full> values(static_cast<Full*>(bucket.buffer.data()), bucket.buffer.numel());
  const Full share = Full{1} / static_cast<Full>(bucket.group.size());
  halves->resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    (*halves)[i] = Half::from(static_cast<float>(values[i] * share));
  Work work = bucket.group.all_reduce(Tensor::of(*halves), ReduceOp::sum,
                                      {.async_op = true, .timeout = bucket.timeout});
  work.then([halves, values](const Work& ended) {
    if (!ended.is_success()) return;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Full>((*halves)[i].to_float());
  });
  return work;
}

template <class Half>
CommHook compress_hook() {
  // By bucket: the reductions of several buckets run at a time.
  const auto memory = std::make_shared<std::vector<std::shared_ptr<std::vector<Half>>>>();
  return [memory](const GradientBucket& bucket) {
    if (bucket.buffer.device().kind != Device::Kind::cpu) {
      throw DistError("this hook converts gradients on the CPU, and these are on " +
                      to_string(bucket.buffer.device()) +
                      ": take those of dlaunch/torch/comm_hooks.h, or a hook of yours");
    }
    while (memory->size() <= bucket.index) memory->push_back(std::make_shared<std::vector<Half>>());
    const auto& halves = (*memory)[bucket.index];
    if (bucket.buffer.dtype() == DType::float32) return reduce_compressed<Half, float>(bucket, halves);
    if (bucket.buffer.dtype() == DType::float64) return reduce_compressed<Half, double>(bucket, halves);
    return allreduce_hook(bucket);
  };
}

}  // namespace

Work allreduce_hook(const GradientBucket& bucket) {
  return bucket.group.all_reduce(bucket.buffer, ReduceOp::avg, {.async_op = true, .timeout = bucket.timeout});
}

CommHook fp16_compress_hook() { return compress_hook<Float16>(); }
CommHook bf16_compress_hook() { return compress_hook<BFloat16>(); }

}  // namespace v1
}  // namespace dlaunch
