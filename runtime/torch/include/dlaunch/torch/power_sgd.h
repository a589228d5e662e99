// torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook: a communication hook that sends gradients as
// products of two thin matrices (T. Vogels, S. P. Karimireddy, M. Jaggi: PowerSGD, NeurIPS 2019).
//
//   dlaunch::torch::PowerSgd power_sgd({.matrix_approximation_rank = 2});
//   dlaunch::torch::DistributedDataParallel model(net);
//   model.register_comm_hook(power_sgd.hook());
//
// The gradient of a parameter with sizes {n, ...} is a matrix M of n rows and m columns. The ranks add up
// P = M Q, make its columns orthonormal, take the mean of Q = M^T P, and have P Q^T as the mean of M: r (n +
// m) numbers in place of n m. It is exact if the mean has no higher rank than r; what is lost otherwise is
// added to the gradient of the next step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "dlaunch/data_parallel.h"
#include "dlaunch/export.h"

namespace dlaunch::torch {
namespace internal {
class PowerSgdState;
}
inline namespace v1 {

struct PowerSgdStatistics {
  std::uint64_t iterations = 0;  // steps that have been started
  std::size_t elements = 0;      // of all gradients in the latest one
  std::size_t sent = 0;          // of them and of P and Q: what the ranks reduced
  [[nodiscard]] double compression_rate() const {
    return sent == 0 ? 1 : static_cast<double>(elements) / static_cast<double>(sent);
  }
};

using PowerSgdLog = std::function<void(const PowerSgdStatistics& statistics)>;

// All ranks give the same. The names and defaults are PyTorch's.
struct PowerSgdOptions {
  int matrix_approximation_rank = 1;  // r
  // So many steps are reduced whole at first. With error feedback or warm start at least 2: the first step
  // shows the order of the gradients.
  std::uint64_t start_powerSGD_iter = 1000;
  // A gradient is compressed if (n + m) r times this is less than n m; others are reduced whole.
  double min_compression_rate = 2;
  bool use_error_feedback = true;  // takes as much memory as the gradients
  bool warm_start = true;          // Q is that of the step before; false: new random numbers
  // 0: by QR. Otherwise by Gram-Schmidt, with this added to each norm.
  double orthogonalization_epsilon = 0;
  std::uint64_t random_seed = 0;
  // So many steps lie between two calls of `log_compression_stats`, which is called by the thread that
  // reduces.
  std::uint64_t compression_stats_logging_frequency = 10'000;
  PowerSgdLog log_compression_stats = {};
};

class DLAUNCH_EXPORT PowerSgd {
 public:
  // DistError that names the option if one has no meaning.
  explicit PowerSgd(PowerSgdOptions options = {});

  // For one model, which may outlive this. Gradients that are neither float32 nor float64 are reduced whole.
  // It waits for the product P of a bucket when the next bucket is complete: the communication overlaps with
  // backward() as that of two reductions, one bucket later.
  [[nodiscard]] CommHook hook() const;

  // On the thread that trains.
  [[nodiscard]] PowerSgdStatistics statistics() const;

 private:
  std::shared_ptr<internal::PowerSgdState> state_;
};

}  // namespace v1
}  // namespace dlaunch::torch
