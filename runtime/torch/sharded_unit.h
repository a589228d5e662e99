// The parameters of one unit: this rank's part of them, and all of them for a while.
#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlaunch/torch/distributed.h"
#include "runtime/gradients/shard_layout.h"
#include "runtime/torch/module_tensors.h"

namespace dlaunch::torch::internal {

class ShardedUnit {
 public:
  // Takes the parameters' values over and leaves them without elements. REQUIRES: there are parameters, all
  // of one dtype, on the CPU.
  ShardedUnit(std::string name, std::vector<NamedTensor> parameters, ProcessGroup group,
              std::optional<std::chrono::milliseconds> timeout);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  // A leaf tensor, which keeps its memory.
  [[nodiscard]] const at::Tensor& shard() const { return shard_; }

  // Gathers; nothing if the parameters are there or on their way.
  void start_gather();
  // The parameters are there when it returns. REQUIRES: start_gather().
  void finish_gather();
  // The parameters have no elements again. Waits for a gathering that runs.
  void release();
  // This rank's part takes the values that are there.
  void write_back();
  [[nodiscard]] bool is_sharded() const { return state_ == State::sharded; }

  // Adds the parameters' gradients to those that it keeps, and drops them. A parameter without one counts as
  // zero.
  void keep_gradients();
  [[nodiscard]] bool keeps_gradients() const { return kept_.defined(); }
  // Reduces the parameters' gradients, with those that it keeps, and drops both.
  void start_reduce();
  // The shard's gradient has what start_reduce() has begun, times `scale`; nothing if there is none.
  void finish_reduce(double scale);
  void drop_gradients();  // the shard's, and those that it keeps

  [[nodiscard]] at::Tensor gather(const at::Tensor& part) const;
  [[nodiscard]] at::Tensor part_of(const at::Tensor& whole) const;

  [[nodiscard]] std::size_t whole_bytes() const { return layout_.elements * shard_.element_size(); }
  // Of what is there beside the shard and its gradient.
  [[nodiscard]] std::size_t gathered_bytes() const;

 private:
  enum class State : std::uint8_t { sharded, gathering, whole };

  [[nodiscard]] dlaunch::CollectiveOptions options(bool async_op) const;
  // A parameter's place in an array of the whole unit.
  [[nodiscard]] at::Tensor view_in(const at::Tensor& whole, std::size_t parameter) const;

  const std::string name_;
  const std::vector<NamedTensor> parameters_;
  const ProcessGroup group_;
  const std::optional<std::chrono::milliseconds> timeout_;
  std::vector<std::vector<std::int64_t>> sizes_;  // of the parameters
  dlaunch::internal::ShardLayout layout_;
  at::Tensor shard_;
  // All shards, one after another. Autograd's graph has views of it, so that it stays the same tensor: its
  // memory comes and goes.
  at::Tensor whole_;
  State state_ = State::sharded;
  std::optional<TensorWork> gathering_;
  void take_gradients(const at::Tensor& sums);  // adds them

  at::Tensor kept_;                      // of all parameters; undefined: none
  at::Tensor gradients_;                 // of all parameters, while they are reduced
  std::optional<TensorWork> reduction_;  // of them to the shard's
};

}  // namespace dlaunch::torch::internal
