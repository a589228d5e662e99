#include "runtime/torch/join_count.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "dlaunch/torch/tensor.h"

namespace dlaunch::torch::internal {

JoinCount::JoinCount(ProcessGroup group, JoinOptions options,
                     std::optional<std::chrono::milliseconds> timeout, at::Device device)
    : group_(std::move(group)),
      options_(options),
      timeout_(timeout),
      device_(device),
      with_data_(static_cast<std::size_t>(group_.size()), 1),
      count_(with_data_.size()) {}

void JoinCount::count(bool has_data) {
  std::vector<std::uint8_t> with_data(with_data_.size());
  with_data[static_cast<std::size_t>(group_.rank())] = has_data ? 1 : 0;
  if (device_.is_cpu()) {
    group_.all_reduce(Tensor::of(with_data), ReduceOp::max, {.async_op = false, .timeout = timeout_});
  } else {
    const at::Tensor on_host = tensor_of(Tensor::of(with_data));
    const at::Tensor on_device = on_host.to(device_);
    group_.all_reduce(view_of(on_device), ReduceOp::max, {.async_op = false, .timeout = timeout_});
    on_host.copy_(on_device);
  }
  count_ = static_cast<std::size_t>(std::ranges::count(with_data, 1));
  if (count_ > 0) with_data_ = with_data;  // in the end: those that trained last
  if (!options_.throw_on_early_termination || count_ == 0 || count_ == with_data.size()) return;
  const auto first = std::ranges::find(with_data, 0) - with_data.begin();
  throw DistError("rank " + std::to_string(first) + " has no more data (throw_on_early_termination)",
                  {.rank = group_.rank(), .operation = "join", .group = group_.name()});
}

void JoinCount::abandon() const {
  group_.abort("rank " + std::to_string(group_.rank()) + " has left its Join without finish()");
}

int JoinCount::source() const {
  return static_cast<int>(std::ranges::find(with_data_, 1) - with_data_.begin());
}

double JoinCount::scale() const {
  if (options_.divide_by_initial_world_size || count_ == 0) return 1;
  return static_cast<double>(group_.size()) / static_cast<double>(count_);
}

}  // namespace dlaunch::torch::internal
