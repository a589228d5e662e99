#include "runtime/backends/mpi/mpi_short_collectives.h"

#include <bit>

namespace dlaunch::internal {

namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// The ranks of a tree, counted from its root.
class Tree {
 public:
  Tree(const MpiGroup& group, int root)
      : size_(group.size()), root_(root), self_((group.rank() - root + size_) % size_) {}
  [[nodiscard]] int self() const { return self_; }
  [[nodiscard]] bool has(int place) const { return place < size_; }
  [[nodiscard]] int rank(int place) const { return (place + root_) % size_; }

 private:
  const int size_;
  const int root_;
  const int self_;
};

}  // namespace

void short_barrier(MpiRequests& call) {
  const int size = call.group().size();
  const int self = call.group().rank();
  for (int step = 1; step < size; step *= 2) {
    call.post_recv({}, (self - step + size) % size);
    call.post_send({}, (self + step) % size);
    call.complete("MPI_Irecv");
  }
}

void short_broadcast(MpiRequests& call, Bytes values, int root) {
  const Tree tree(call.group(), root);
  int step = 1;
  while (tree.has(step) && (tree.self() & step) == 0) step *= 2;
  if (tree.self() != 0) {
    call.post_recv(values, tree.rank(tree.self() - step));
    call.complete("MPI_Irecv");
  }
  for (step /= 2; step > 0; step /= 2) {
    if (tree.has(tree.self() + step)) call.post_send(values, tree.rank(tree.self() + step));
  }
  call.complete("MPI_Isend");
}

// Ranks beyond the largest power of two give their values to one below it, and get the result from there.
void short_all_reduce(MpiRequests& call, Bytes values, DType dtype, ReduceOp op) {
  const MpiCombination combine(dtype, op);
  const int size = call.group().size();
  const int self = call.group().rank();
  const int doubling = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  if (self >= doubling) {
    call.post_send(values, self - doubling);
    call.complete("MPI_Isend");
    call.post_recv(values, self - doubling);
    return call.complete("MPI_Irecv");
  }
  const Bytes theirs = call.scratch(values.size());
  const bool has_other = self + doubling < size;
  if (has_other) {
    call.post_recv(theirs, self + doubling);
    call.complete("MPI_Irecv");
    combine(values, values, theirs);
  }
  for (int step = 1; step < doubling; step *= 2) {
    const int peer = self ^ step;
    call.post_recv(theirs, peer);
    call.post_send(values, peer);
    call.complete("MPI_Irecv");
    combine(values, self < peer ? values : theirs, self < peer ? theirs : values);
  }
  if (!has_other) return;
  call.post_send(values, self + doubling);
  call.complete("MPI_Isend");
}

void short_reduce(MpiRequests& call, Bytes values, DType dtype, ReduceOp op, int root) {
  const MpiCombination combine(dtype, op);
  const Tree tree(call.group(), root);
  Bytes theirs;
  for (int step = 1; tree.has(step); step *= 2) {
    if ((tree.self() & step) != 0) {
      call.post_send(values, tree.rank(tree.self() - step));
      return call.complete("MPI_Isend");
    }
    if (!tree.has(tree.self() + step)) continue;
    if (theirs.empty()) {
      theirs = call.scratch(values.size());
      if (tree.self() != 0) {
        const Bytes own = call.scratch(values.size());
        copy_bytes(own, values);
        values = own;
      }
    }
    call.post_recv(theirs, tree.rank(tree.self() + step));
    call.complete("MPI_Irecv");
    combine(values, values, theirs);
  }
}

}  // namespace dlaunch::internal
