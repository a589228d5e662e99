#include "dlaunch/torch/zero_redundancy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "runtime/torch/module_tensors.h"

namespace dlaunch::torch {
inline namespace v1 {

std::vector<int> share_out(std::span<const std::size_t> sizes, int ranks) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t item) { return sizes[item]; });
  std::vector<std::size_t> loads(static_cast<std::size_t>(ranks));
  std::vector<int> owners(sizes.size());
  for (const std::size_t item : order) {
    const auto least = std::ranges::min_element(loads);
    *least += sizes[item];
    owners[item] = static_cast<int>(least - loads.begin());
  }
  return owners;
}

SharedOutParameters::SharedOutParameters(std::vector<at::Tensor> parameters, ProcessGroup group,
                                         std::optional<std::chrono::milliseconds> timeout)
    : parameters_(std::move(parameters)),
      group_(group ? std::move(group) : default_group()),
      timeout_(timeout) {
  const auto reject = [this](const std::string& reason) {
    throw DistError(reason,
                    {.rank = group_.rank(), .operation = "ZeroRedundancyOptimizer", .group = group_.name()});
  };
  if (group_.rank() < 0) reject("this process is not a member of the group");
  if (parameters_.empty()) reject("there are no parameters");
  std::vector<std::size_t> sizes;
  for (const at::Tensor& parameter : parameters_) {
    if (const auto reason = internal::why_not_dense(parameter))
      reject("parameter " + std::to_string(sizes.size()) + " " + *reason);
    sizes.push_back(parameter.nbytes());
  }
  owners_ = share_out(sizes, group_.size());
}

std::vector<at::Tensor> SharedOutParameters::own() const {
  std::vector<at::Tensor> own;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (owners_[i] == group_.rank()) own.push_back(parameters_[i]);
  return own;
}

void SharedOutParameters::exchange() const {
  std::vector<Work> works;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    works.push_back(group_.broadcast(internal::memory_of(parameters_[i]), owners_[i],
                                     {.async_op = true, .timeout = timeout_}));
  }
  for (const Work& work : works) work.wait();
  // As after every operation in place.
  for (const at::Tensor& parameter : parameters_) parameter.unsafeGetTensorImpl()->bump_version();
}

}  // namespace v1
}  // namespace dlaunch::torch
