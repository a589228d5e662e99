// Collectives in which each rank exchanges messages with each other one: for few ranks, and data of any
// length. MPI's non-blocking collectives are slower, those of Open MPI several times with long data.
//
// A reduction gives each rank one part, which it gets from all others and reduces; the others then get the
// result from there (Rabenseifner's algorithm). So all ranks reduce at the same time, each byte is sent as
// seldom as possible, and all ranks get the same bits. Of two ranks, only the root of a reduce reduces.
#pragma once

#include <cstddef>
#include <span>

#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"
#include "runtime/backends/mpi/mpi_group.h"

namespace dlaunch::internal {

[[nodiscard]] constexpr bool are_few(int ranks) { return ranks <= 8; }

void pairwise_all_gather(MpiRequests& call, std::span<const std::span<std::byte>> outputs,
                         std::span<const std::byte> input);
// `parts`: for all ranks; this rank's own may be `output`.
void pairwise_reduce_scatter(MpiRequests& call, std::span<std::byte> output,
                             std::span<const std::span<const std::byte>> parts, DType dtype, ReduceOp op);
// In place.
void pairwise_all_reduce(MpiRequests& call, std::span<std::byte> values, DType dtype, ReduceOp op);
// In the root's `values`; those of the others stay as they are.
void pairwise_reduce(MpiRequests& call, std::span<std::byte> values, DType dtype, ReduceOp op, int root);

}  // namespace dlaunch::internal
