// CUDA devices of the tensors in remote calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <type_traits>

#include "dlaunch/codec.h"
#include "runtime/rpc_protocol/tensor_head.h"

namespace dlaunch::torch::internal {

// Of this process; 0 without CUDA.
int device_count();

// As a head has it.
std::int16_t device_number(const at::Tensor& tensor);

// A tensor that goes to a certain device of its receiver, whatever the device maps are: a gradient, to the
// device of the tensor that it is of.
struct DirectedTensor {
  at::Tensor tensor;
  std::int16_t device = dlaunch::internal::on_cpu;
};

void write_tensor(codec::Write& write, const at::Tensor& tensor, std::int16_t device);

template <class Archive>
void serialize(Archive& archive, DirectedTensor& directed) {
  if constexpr (std::is_same_v<Archive, codec::Write>) {
    write_tensor(archive, directed.tensor, directed.device);
  } else {
    archive(directed.tensor);
  }
}

}  // namespace dlaunch::torch::internal
