// Collectives of short data as messages between two ranks.
//
// The backend may not call MPI's blocking collectives, and the non-blocking ones cost several times as much
// for short data: MPI makes a schedule of messages for each call. Here the messages are sent at once. The
// algorithms are the usual ones: dissemination (barrier), recursive doubling (all_reduce) and binomial trees
// (broadcast, reduce); Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH", 2005.
//
// As in every collective, all ranks make these calls in the same order, so that messages with one tag find
// the right receives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"
#include "runtime/backends/mpi/mpi_group.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

// memcpy uses other methods for more than the L2 cache holds. On an EPYC they are slower: with glibc 2.36, 2
// MiB take 41 us whole and 35 us in pieces, 16 MiB 1,230 and 430.
inline void copy_bytes(std::span<std::byte> to, std::span<const std::byte> from) {
  constexpr std::size_t piece = std::size_t{128} * 1024;
  if (to.data() == from.data()) return;
  for (std::size_t at = 0; at < from.size(); at += piece)
    std::memcpy(to.data() + at, from.data() + at, std::min(piece, from.size() - at));
}

// The values of the lower rank come first: see ReduceKernel.
class MpiCombination {
 public:
  MpiCombination(DType dtype, ReduceOp op) : kernel_(reduce_kernel(dtype, op)), unit_(size_of(dtype)) {}
  void operator()(std::span<std::byte> out, std::span<const std::byte> low,
                  std::span<const std::byte> high) const {
    kernel_(out.data(), low.data(), high.data(), out.size() / unit_);
  }

 private:
  const ReduceKernel kernel_;
  const std::size_t unit_;
};

// Whether these are faster than MPI's own ones. With many ranks MPI may know better ways, or the network may
// do the work.
[[nodiscard]] constexpr bool is_short(std::size_t bytes, int ranks) {
  return bytes <= std::size_t{16} * 1024 && ranks <= 64;
}
// If two ranks send each other the whole, and both reduce all of it. Two ranks alone send parts if MPI would
// ask the receiver before it sends the whole, but not a part, and if there is much to reduce.
[[nodiscard]] constexpr bool is_short_exchange(std::size_t bytes, int ranks) {
  if (ranks > 2) return bytes <= 2048 && is_short(bytes, ranks);
  constexpr std::size_t at_once = sent_at_once * most_pieces;
  if (bytes > at_once) return bytes / 2 > at_once && bytes <= std::size_t{64} * 1024;
  return bytes <= std::size_t{16} * 1024;
}
// A tree of two ranks needs one message, however long it is.
[[nodiscard]] constexpr bool is_short_broadcast(std::size_t bytes, int ranks) {
  return is_short(bytes, ranks) || ranks == 2;
}

void short_barrier(MpiRequests& call);
void short_broadcast(MpiRequests& call, std::span<std::byte> values, int root);
// In place. The same bits on all ranks.
void short_all_reduce(MpiRequests& call, std::span<std::byte> values, DType dtype, ReduceOp op);
// In the root's `values`; those of the others stay as they are.
void short_reduce(MpiRequests& call, std::span<std::byte> values, DType dtype, ReduceOp op, int root);

}  // namespace dlaunch::internal
