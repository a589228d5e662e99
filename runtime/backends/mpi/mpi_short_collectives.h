// Collectives of short data as messages between two ranks.
//
// The backend may not call MPI's blocking collectives, and the non-blocking ones cost several times as much
// for short data: MPI makes a schedule of messages for each call. Here the messages are sent at once. The
// algorithms are the usual ones: dissemination (barrier), recursive doubling (all_reduce), binomial trees
// (broadcast, reduce), and with few ranks each one to each other (all_gather, reduce_scatter, and both for a
// longer all_reduce); Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH", 2005.
//
// As in every collective, all ranks make these calls in the same order, so that messages with one tag find
// the right receives.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"
#include "runtime/backends/mpi/mpi_group.h"

namespace dlaunch::internal {

// Tag of the messages within a collective; those of notices are larger.
inline constexpr int part_tag = 1;

inline void copy_bytes(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty() && to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
}

void post_send(MpiRequests& call, std::span<const std::byte> bytes, int to);
void post_recv(MpiRequests& call, std::span<std::byte> bytes, int from);

// Whether these are faster than MPI's own ones. `bytes`: of one message, or of those for all ranks together.
// With many ranks MPI may know better ways, or the network may do the work.
[[nodiscard]] constexpr bool is_short(std::size_t bytes, int ranks) {
  return bytes <= std::size_t{16} * 1024 && ranks <= 64;
}
// If each rank sends to each other.
[[nodiscard]] constexpr bool is_short_for_all(std::size_t bytes, int ranks) {
  return is_short(bytes, ranks) && ranks <= 8;
}
// Of an all_reduce: as whole values that two ranks exchange, or in parts, one for each rank.
inline constexpr std::size_t most_exchanged = 2048;
[[nodiscard]] constexpr bool is_short_all_reduce(std::size_t bytes, int ranks) {
  return is_short_for_all(bytes, ranks) || (is_short(bytes, ranks) && bytes <= most_exchanged);
}

void short_barrier(MpiRequests& call);
void short_broadcast(MpiRequests& call, std::span<std::byte> values, int root);
// In place. The same bits on all ranks.
void short_all_reduce(MpiRequests& call, std::span<std::byte> values, DType dtype, ReduceOp op);
// In the root's `values`; those of the others stay as they are.
void short_reduce(MpiRequests& call, std::span<std::byte> values, DType dtype, ReduceOp op, int root);
void short_all_gather(MpiRequests& call, std::span<const std::span<std::byte>> outputs,
                      std::span<const std::byte> input);
// `parts`: for all ranks.
void short_reduce_scatter(MpiRequests& call, std::span<std::byte> output,
                          std::span<const std::span<const std::byte>> parts, DType dtype, ReduceOp op);

}  // namespace dlaunch::internal
