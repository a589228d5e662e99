// The functions of runtime/collectives/ for calls that have the collectives as members, so that all kinds of
// calls look the same.
#pragma once

#include <cstddef>
#include <span>

#include "dlaunch/backend.h"
#include "dlaunch/tensor.h"

namespace dlaunch::internal {

// SharedCall, HierarchicalCall.
template <class Call>
concept CollectiveCall = requires(Call& call) {
  call.barrier();
};

template <CollectiveCall Call>
void all_reduce(Call& call, std::span<std::byte> values, DType dtype, const Reduction& reduction) {
  call.all_reduce(values, dtype, reduction);
}
template <CollectiveCall Call>
void all_reduce_coalesced(Call& call, std::span<const std::span<std::byte>> tensors, DType dtype,
                          const Reduction& reduction) {
  call.all_reduce_coalesced(tensors, dtype, reduction);
}
template <CollectiveCall Call>
void reduce_to_root(Call& call, std::span<std::byte> values, DType dtype, const Reduction& reduction,
                    int root) {
  call.reduce(values, dtype, reduction, root);
}
template <CollectiveCall Call>
void reduce_scatter(Call& call, std::span<std::byte> output,
                    std::span<const std::span<const std::byte>> inputs, DType dtype,
                    const Reduction& reduction) {
  call.reduce_scatter(output, inputs, dtype, reduction);
}
template <CollectiveCall Call>
void broadcast(Call& call, std::span<std::byte> values, int src) {
  call.broadcast(values, src);
}
template <CollectiveCall Call>
void all_gather(Call& call, std::span<const std::span<std::byte>> outputs, std::span<const std::byte> input) {
  call.all_gather(outputs, input);
}
template <CollectiveCall Call>
void gather(Call& call, std::span<const std::span<std::byte>> outputs, std::span<const std::byte> input,
            int root) {
  call.gather(outputs, input, root);
}
template <CollectiveCall Call>
void scatter(Call& call, std::span<std::byte> output, std::span<const std::span<const std::byte>> inputs,
             int root) {
  call.scatter(output, inputs, root);
}
template <CollectiveCall Call>
void all_to_all(Call& call, std::span<const std::span<std::byte>> outputs,
                std::span<const std::span<const std::byte>> inputs) {
  call.all_to_all(outputs, inputs);
}
template <CollectiveCall Call>
void barrier(Call& call) {
  call.barrier();
}

}  // namespace dlaunch::internal
