#include "runtime/torch/power_sgd_state.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "dlaunch/process_group.h"
#include "dlaunch/torch/tensor.h"
#include "runtime/torch/devices.h"

namespace dlaunch::torch::internal {

namespace {

// Parts of one array with these sizes.
at::Tensor next_part(const at::Tensor& memory, std::int64_t& offset, at::IntArrayRef sizes) {
  const at::Tensor part = memory.narrow(0, offset, c10::multiply_integers(sizes)).view(sizes);
  offset += part.numel();
  return part;
}

Work reduce_all(const GradientBucket& bucket, const at::Tensor& memory, ReduceOp op) {
  return bucket.group.all_reduce(view_of(memory), op, {.async_op = true, .timeout = bucket.timeout});
}

}  // namespace

PowerSgdState::PowerSgdState(PowerSgdOptions options)
    : options_(std::move(options)), random_(at::make_generator<at::CPUGeneratorImpl>(options_.random_seed)) {
  const auto reject = [](const std::string& reason) { throw DistError(reason, {.operation = "PowerSgd"}); };
  if (options_.matrix_approximation_rank < 1) reject("matrix_approximation_rank is not positive");
  if (options_.min_compression_rate <= 0) reject("min_compression_rate is not positive");
  if (options_.orthogonalization_epsilon < 0) reject("orthogonalization_epsilon is negative");
  if (options_.compression_stats_logging_frequency == 0) reject("compression_stats_logging_frequency is 0");
  if (options_.start_powerSGD_iter < 2 && (options_.use_error_feedback || options_.warm_start)) {
    reject("start_powerSGD_iter is " + std::to_string(options_.start_powerSGD_iter) +
           "; with use_error_feedback or warm_start it must be 2 at least");
  }
}

BucketReduction PowerSgdState::reduce(const GradientBucket& bucket) {
  const at::NoGradGuard no_grad;
  const bool is_float = bucket.buffer.dtype() == DType::float32 || bucket.buffer.dtype() == DType::float64;
  std::shared_ptr<Pending> own;
  if (is_float && statistics_.iterations >= options_.start_powerSGD_iter) own = start(bucket);
  BucketReduction reduction =
      own ? BucketReduction(own->source->work(), [own] { decompress(*own); }) : allreduce_hook(bucket);
  count(bucket, own ? static_cast<std::size_t>(own->whole_memory.numel() + own->p_memory.numel() +
                                               own->q_memory.numel())
                    : bucket.buffer.numel());
  // In the order of the buckets, and so in one order on all ranks.
  if (const auto before = std::exchange(pending_, own)) reduce_q(before);
  if (bucket.is_last)
    if (const auto last = std::exchange(pending_, nullptr)) reduce_q(last);
  return reduction;
}

void PowerSgdState::count(const GradientBucket& bucket, std::size_t sent) {
  if (bucket.index == 0) step_ = {statistics_.iterations, 0, 0};
  step_.elements += bucket.buffer.numel();
  step_.sent += sent;
  if (!bucket.is_last) return;
  ++step_.iterations;
  statistics_ = step_;
  if (options_.log_compression_stats &&
      statistics_.iterations % options_.compression_stats_logging_frequency == 0)
    options_.log_compression_stats(statistics_);
}

bool PowerSgdState::is_compressed(const at::Tensor& gradient) const {
  if (gradient.dim() < 2 || gradient.numel() == 0) return false;
  const auto rows = static_cast<double>(gradient.size(0));
  const auto columns = static_cast<double>(gradient.numel()) / rows;
  return (rows + columns) * options_.matrix_approximation_rank * options_.min_compression_rate <
         rows * columns;
}

std::shared_ptr<PowerSgdState::Pending> PowerSgdState::start(const GradientBucket& bucket) {
  auto pending = std::make_shared<Pending>();
  pending->bucket = bucket;
  if (bucket.buffer.device().kind == Device::Kind::cpu) {
    pending->source.emplace();
  } else {
    pending->source.emplace([weak = std::weak_ptr(pending)] {
      const auto held = weak.lock();
      return held && held->q_work && held->q_work->order_stream();
    });
  }
  for (std::size_t i = 0; i < bucket.gradients.size(); ++i) {
    const at::Tensor gradient = tensor_of(bucket.gradients[i]);
    if (!is_compressed(gradient)) {
      pending->whole.push_back(gradient);
      continue;
    }
    std::shared_ptr<Memory>& memory = memory_[bucket.parameters[i]];
    if (!memory) memory = std::make_shared<Memory>();
    pending->compressed.push_back({gradient.view({gradient.size(0), -1}), {}, {}, {}, memory});
  }
  if (pending->compressed.empty()) return nullptr;
  prepare(*pending);
  if (!pending->whole.empty()) pending->whole_work = reduce_all(bucket, pending->whole_memory, ReduceOp::avg);
  pending->p_work = reduce_all(bucket, pending->p_memory, ReduceOp::sum);
  return pending;
}

void PowerSgdState::prepare(Pending& pending) {
  const at::TensorOptions options = pending.compressed.front().gradient.options();
  std::vector<at::Tensor> flat;
  for (const at::Tensor& gradient : pending.whole) flat.push_back(gradient.flatten());
  pending.whole_memory = flat.empty() ? at::empty({0}, options) : at::cat(flat);
  std::int64_t p_size = 0;
  std::int64_t q_size = 0;
  const auto rank_of = [this](const at::Tensor& matrix) {
    return std::min<std::int64_t>({options_.matrix_approximation_rank, matrix.size(0), matrix.size(1)});
  };
  for (const Compressed& each : pending.compressed) {
    p_size += each.gradient.size(0) * rank_of(each.gradient);
    q_size += each.gradient.size(1) * rank_of(each.gradient);
  }
  pending.p_memory = at::empty({p_size}, options);
  pending.q_memory = at::empty({q_size}, options);
  std::int64_t p_offset = 0;
  std::int64_t q_offset = 0;
  for (Compressed& each : pending.compressed) {
    const std::int64_t rank = rank_of(each.gradient);
    each.p = next_part(pending.p_memory, p_offset, {each.gradient.size(0), rank});
    each.q = next_part(pending.q_memory, q_offset, {each.gradient.size(1), rank});
    if (options_.use_error_feedback) {
      keep_for_current_stream(each.memory->error);
      if (each.memory->error.defined()) each.gradient.add_(each.memory->error);
      each.given = each.gradient.clone();
    }
    at::mm_out(each.p, each.gradient, first_q(each));
  }
}

at::Tensor PowerSgdState::first_q(Compressed& compressed) {
  if (options_.warm_start && compressed.memory->q.defined()) {
    keep_for_current_stream(compressed.memory->q);
    return orthonormal(compressed.memory->q);
  }
  // The same numbers on all ranks.
  const at::TensorOptions on_host = compressed.q.options().device(at::kCPU);
  return orthonormal(at::randn(compressed.q.sizes(), random_, on_host).to(compressed.q.device()));
}

at::Tensor PowerSgdState::orthonormal(const at::Tensor& matrix) const {
  if (options_.orthogonalization_epsilon == 0) return std::get<0>(at::linalg_qr(matrix));
  at::Tensor result = matrix.clone();
  for (std::int64_t i = 0; i < result.size(1); ++i) {
    at::Tensor column = result.narrow(1, i, 1);
    column.div_(column.norm() + options_.orthogonalization_epsilon);
    at::Tensor rest = result.narrow(1, i + 1, result.size(1) - i - 1);
    rest.sub_(column.matmul(column.t().matmul(rest)));
  }
  return result;
}

void PowerSgdState::reduce_q(const std::shared_ptr<Pending>& pending) const {
  try {
    pending->whole_work.wait();
    pending->p_work.wait();
    keep_for_current_stream(pending->p_memory);
    keep_for_current_stream(pending->q_memory);
    for (Compressed& each : pending->compressed) {
      each.p.copy_(orthonormal(each.p));
      at::mm_out(each.q, each.gradient.t(), each.p);
    }
    pending->q_work = reduce_all(pending->bucket, pending->q_memory, ReduceOp::avg);
    pending->q_work->then([pending](const Work& ended) {
      if (const std::exception_ptr reason = ended.exception()) {
        pending->source->fail_silently(reason);
      } else {
        pending->source->succeed();
      }
    });
  } catch (...) {
    pending->source->fail_silently(std::current_exception());
    throw;
  }
}

// In the order of the calling thread's stream, as everything that uses these tensors.
void PowerSgdState::decompress(const Pending& pending) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& memory : {pending.whole_memory, pending.p_memory, pending.q_memory})
    keep_for_current_stream(memory);
  std::int64_t offset = 0;
  for (const at::Tensor& gradient : pending.whole)
    gradient.copy_(next_part(pending.whole_memory, offset, gradient.sizes()));
  for (const Compressed& each : pending.compressed) {
    at::Tensor gradient = each.gradient;
    at::mm_out(gradient, each.p, each.q.t());
    if (each.given.defined()) {
      keep_for_current_stream(each.given);
      each.memory->error = each.given - gradient;
    }
    each.memory->q = each.q;
  }
}

}  // namespace dlaunch::torch::internal
