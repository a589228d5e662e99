// What a PowerSGD hook keeps between the buckets and the steps.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dlaunch/torch/power_sgd.h"
#include "dlaunch/work.h"

namespace dlaunch::torch::internal {

class PowerSgdState {
 public:
  explicit PowerSgdState(PowerSgdOptions options);

  // The hook.
  BucketReduction reduce(const GradientBucket& bucket);
  [[nodiscard]] const PowerSgdStatistics& statistics() const { return statistics_; }

 private:
  // Of a parameter, between the steps. By parameter, because buckets are rebuilt.
  struct Memory {
    at::Tensor q;
    at::Tensor error;
  };
  struct Compressed {
    at::Tensor gradient;  // in the bucket, as a matrix
    at::Tensor given;     // with error feedback: what it was before the reduction
    at::Tensor p;
    at::Tensor q;
    std::shared_ptr<Memory> memory;
  };
  // A bucket whose P, then Q is being reduced.
  struct Pending {
    GradientBucket bucket;
    std::vector<Compressed> compressed;
    std::vector<at::Tensor> whole;  // gradients that are not compressed
    at::Tensor whole_memory;        // one after another; so below
    at::Tensor p_memory;
    at::Tensor q_memory;
    Work whole_work;
    Work p_work;
    std::optional<Work> q_work;
    // Of the whole, which ends with Q.
    std::optional<WorkSource> source;
  };

  [[nodiscard]] bool is_compressed(const at::Tensor& gradient) const;
  [[nodiscard]] std::shared_ptr<Pending> start(const GradientBucket& bucket);
  void prepare(Pending& pending);
  // Reduces Q; its end completes the bucket's Work.
  void reduce_q(const std::shared_ptr<Pending>& pending) const;
  static void decompress(const Pending& pending);
  at::Tensor first_q(Compressed& compressed);
  void count(const GradientBucket& bucket, std::size_t sent);
  [[nodiscard]] at::Tensor orthonormal(const at::Tensor& matrix) const;

  const PowerSgdOptions options_;
  at::Generator random_;
  std::map<std::size_t, std::shared_ptr<Memory>> memory_;  // by parameter
  std::shared_ptr<Pending> pending_;                       // the bucket before
  PowerSgdStatistics statistics_;
  PowerSgdStatistics step_;  // the one that runs
};

}  // namespace dlaunch::torch::internal
