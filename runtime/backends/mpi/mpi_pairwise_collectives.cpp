#include "runtime/backends/mpi/mpi_pairwise_collectives.h"

#include <algorithm>
#include <vector>

#include "runtime/backends/mpi/mpi_short_collectives.h"

namespace dlaunch::internal {

namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// Of one rank's part: what has come from all ranks stays in the processor's caches until it is reduced.
constexpr std::size_t segment_size = std::size_t{128} * 1024;

std::size_t at_rank(int rank) { return static_cast<std::size_t>(rank); }

template <class Body>
void for_each_peer(const MpiGroup& group, const Body& body) {
  for (int step = 1; step < group.size(); ++step) body((group.rank() + step) % group.size());
}

// The part at most `segment_size` long that begins there; none behind the end.
template <class Span>
Span segment(Span whole, std::size_t at) {
  const std::size_t begin = std::min(at, whole.size());
  return whole.subspan(begin, std::min(segment_size, whole.size() - begin));
}

std::vector<Bytes> parts_of(Bytes values, std::size_t unit, int ranks) {
  const std::size_t elements = values.size() / unit;
  std::vector<Bytes> parts;
  for (std::size_t rank = 0; rank < at_rank(ranks); ++rank) {
    const std::size_t begin = elements * rank / at_rank(ranks);
    const std::size_t end = elements * (rank + 1) / at_rank(ranks);
    parts.push_back(values.subspan(begin * unit, (end - begin) * unit));
  }
  return parts;
}

}  // namespace

void pairwise_all_gather(MpiRequests& call, std::span<const Bytes> outputs, ConstBytes input) {
  for_each_peer(call.group(), [&](int peer) { call.post_recv(outputs[at_rank(peer)], peer); });
  for_each_peer(call.group(), [&](int peer) { call.post_send(input, peer); });
  copy_bytes(outputs[at_rank(call.group().rank())], input);
  call.complete("MPI_Irecv");
}

void pairwise_reduce_scatter(MpiRequests& call, Bytes output, std::span<const ConstBytes> parts, DType dtype,
                             ReduceOp op) {
  const MpiGroup& group = call.group();
  if (group.size() == 1) return copy_bytes(output, parts.front());
  const MpiCombination combine(dtype, op);
  const std::size_t slot = std::min(segment_size, output.size());
  const Bytes slots = call.scratch(at_rank(group.size()) * slot);
  const std::size_t longest = std::ranges::max_element(parts, {}, &ConstBytes::size)->size();
  for (std::size_t at = 0; at < longest; at += segment_size) {
    const Bytes result = segment(output, at);
    const auto from = [&](int rank) { return slots.subspan(at_rank(rank) * slot, result.size()); };
    for_each_peer(group, [&](int peer) {
      if (!result.empty()) call.post_recv(from(peer), peer);
    });
    for_each_peer(group, [&](int peer) {
      const ConstBytes part = segment(parts[at_rank(peer)], at);
      if (!part.empty()) call.post_send(part, peer);
    });
    call.complete("MPI_Irecv");
    const auto values = [&](int rank) {
      return rank == group.rank() ? segment(parts[at_rank(rank)], at) : ConstBytes(from(rank));
    };
    const Bytes sum = from(group.rank());  // the result may be this rank's part
    combine(sum, values(0), values(1));
    for (int rank = 2; rank < group.size(); ++rank) combine(sum, sum, values(rank));
    copy_bytes(result, sum);
  }
}

void pairwise_all_reduce(MpiRequests& call, Bytes values, DType dtype, ReduceOp op) {
  const std::vector<Bytes> parts = parts_of(values, size_of(dtype), call.group().size());
  const Bytes own = parts[at_rank(call.group().rank())];
  pairwise_reduce_scatter(call, own, std::vector<ConstBytes>(parts.begin(), parts.end()), dtype, op);
  pairwise_all_gather(call, parts, own);
}

void pairwise_reduce(MpiRequests& call, Bytes values, DType dtype, ReduceOp op, int root) {
  const std::vector<Bytes> parts = parts_of(values, size_of(dtype), call.group().size());
  const Bytes part = parts[at_rank(call.group().rank())];
  const bool is_root = call.group().rank() == root;
  const Bytes own = is_root ? part : call.scratch(part.size());
  pairwise_reduce_scatter(call, own, std::vector<ConstBytes>(parts.begin(), parts.end()), dtype, op);
  if (!is_root) {
    call.post_send(own, root);
    return call.complete("MPI_Isend");
  }
  for_each_peer(call.group(), [&](int peer) { call.post_recv(parts[at_rank(peer)], peer); });
  call.complete("MPI_Irecv");
}

}  // namespace dlaunch::internal
