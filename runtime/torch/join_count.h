// Which ranks still have data: all ranks of a group count them before each step.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dlaunch/process_group.h"
#include "dlaunch/torch/join.h"

namespace dlaunch::torch::internal {

class JoinCount {
 public:
  // `device`: on which the group works.
  JoinCount(ProcessGroup group, JoinOptions options, std::optional<std::chrono::milliseconds> timeout,
            at::Device device);

  // All ranks call it together. Throws DistError on all of them if it is asked to end early.
  void count(bool has_data);

  // This rank has left the Join: the group ends, since the others would wait for it.
  void abandon() const;

  [[nodiscard]] std::size_t with_data() const { return count_; }  // ranks, by the latest count
  [[nodiscard]] bool some_have_finished() const { return count_ < with_data_.size(); }
  // The lowest rank that had data by the latest count in which one had.
  [[nodiscard]] int source() const;
  // What a mean over all ranks is multiplied with.
  [[nodiscard]] double scale() const;

 private:
  const ProcessGroup group_;
  const JoinOptions options_;
  const std::optional<std::chrono::milliseconds> timeout_;
  const at::Device device_;
  std::vector<std::uint8_t> with_data_;  // by rank
  std::size_t count_;
};

}  // namespace dlaunch::torch::internal
