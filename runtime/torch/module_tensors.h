// The tensors of a module that data-parallel training keeps equal on all ranks.
#pragma once

#include <torch/nn/module.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dlaunch/process_group.h"
#include "dlaunch/tensor.h"

namespace dlaunch::torch::internal {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

struct ModuleTensors {
  std::vector<NamedTensor> trained;  // parameters that require a gradient; each tensor once
  std::vector<NamedTensor> frozen;   // the other parameters
  std::vector<NamedTensor> buffers;
};

ModuleTensors tensors_of(const ::torch::nn::Module& module, const std::set<std::string>& ignored);

// A view with the tensor's sizes of its memory, in the order of the memory: what one rank's elements are by
// place are the other ranks' if the strides are equal. REQUIRES: why_not_dense() is none.
Tensor memory_of(const at::Tensor& tensor);
// None: it is a tensor without gaps on a device that can be used.
std::optional<std::string> why_not_dense(const at::Tensor& tensor);

// All ranks of the group call it together; throws DistError on all of them if one has a problem or has other
// tensors than rank 0. `operation`: for its text.
void require_same_tensors(const ProcessGroup& group, const ModuleTensors& tensors,
                          const std::optional<std::string>& problem, const char* operation);

// The values of a rank of the group.
void broadcast_all(const ProcessGroup& group, const std::vector<NamedTensor>& tensors, int source,
                   std::optional<std::chrono::milliseconds> timeout);

}  // namespace dlaunch::torch::internal
