#include "runtime/backends/mpi/mpi_short_collectives.h"

#include <bit>
#include <vector>

#include "runtime/backends/mpi/mpi_error.h"
#include "runtime/backends/mpi/mpi_types.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// The values of the lower rank come first: see ReduceKernel.
class Combination {
 public:
  Combination(DType dtype, ReduceOp op) : kernel_(reduce_kernel(dtype, op)), unit_(size_of(dtype)) {}
  void operator()(Bytes out, ConstBytes low, ConstBytes high) const {
    kernel_(out.data(), low.data(), high.data(), out.size() / unit_);
  }

 private:
  const ReduceKernel kernel_;
  const std::size_t unit_;
};

// The ranks of a tree, counted from its root.
class Tree {
 public:
  Tree(MpiGroup& group, int root)
      : size_(group.size()), root_(root), self((group.rank() - root + size_) % size_) {}
  [[nodiscard]] bool has(int place) const { return place < size_; }
  [[nodiscard]] int rank(int place) const { return (place + root_) % size_; }

 private:
  const int size_;
  const int root_;

 public:
  const int self;
};

template <class Body>
void for_each_peer(const MpiGroup& group, const Body& body) {
  for (int step = 1; step < group.size(); ++step) body((group.rank() + step) % group.size());
}

// Ranks beyond the largest power of two give their values to one below it, and get the result from there.
void exchange_all(MpiRequests& call, Bytes values, DType dtype, ReduceOp op) {
  const Combination combine(dtype, op);
  const int size = call.group().size();
  const int self = call.group().rank();
  const int doubling = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  if (self >= doubling) {
    post_send(call, values, self - doubling);
    call.complete("MPI_Isend");
    post_recv(call, values, self - doubling);
    return call.complete("MPI_Irecv");
  }
  const Bytes theirs = call.scratch(values.size());
  const bool has_other = self + doubling < size;
  if (has_other) {
    post_recv(call, theirs, self + doubling);
    call.complete("MPI_Irecv");
    combine(values, values, theirs);
  }
  for (int step = 1; step < doubling; step *= 2) {
    const int peer = self ^ step;
    post_recv(call, theirs, peer);
    post_send(call, values, peer);
    call.complete("MPI_Irecv");
    combine(values, self < peer ? values : theirs, self < peer ? theirs : values);
  }
  if (!has_other) return;
  post_send(call, values, self + doubling);
  call.complete("MPI_Isend");
}

// Each rank reduces one part, and gives it to all others.
void reduce_in_parts(MpiRequests& call, Bytes values, DType dtype, ReduceOp op) {
  const auto size = static_cast<std::size_t>(call.group().size());
  const std::size_t unit = size_of(dtype);
  const std::size_t elements = values.size() / unit;
  std::vector<Bytes> parts;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const std::size_t begin = elements * rank / size;
    const std::size_t end = elements * (rank + 1) / size;
    parts.push_back(values.subspan(begin * unit, (end - begin) * unit));
  }
  const std::vector<ConstBytes> sources(parts.begin(), parts.end());
  const Bytes own = parts[static_cast<std::size_t>(call.group().rank())];
  short_reduce_scatter(call, own, sources, dtype, op);
  short_all_gather(call, parts, own);
}

}  // namespace

void post_send(MpiRequests& call, ConstBytes bytes, int to) {
  const MpiBytes what(bytes.size());
  const MpiCallLock lock;
  require_mpi(MPI_Isend(bytes.data(), what.count(), what.type(), to, part_tag, call.group().collectives(),
                        call.add()),
              "MPI_Isend");
}

void post_recv(MpiRequests& call, Bytes bytes, int from) {
  const MpiBytes what(bytes.size());
  const MpiCallLock lock;
  require_mpi(MPI_Irecv(bytes.data(), what.count(), what.type(), from, part_tag, call.group().collectives(),
                        call.add()),
              "MPI_Irecv");
}

void short_barrier(MpiRequests& call) {
  const int size = call.group().size();
  const int self = call.group().rank();
  for (int step = 1; step < size; step *= 2) {
    post_recv(call, {}, (self - step + size) % size);
    post_send(call, {}, (self + step) % size);
    call.complete("MPI_Irecv");
  }
}

void short_broadcast(MpiRequests& call, Bytes values, int root) {
  const Tree tree(call.group(), root);
  int step = 1;
  while (tree.has(step) && (tree.self & step) == 0) step *= 2;
  if (tree.self != 0) {
    post_recv(call, values, tree.rank(tree.self - step));
    call.complete("MPI_Irecv");
  }
  for (step /= 2; step > 0; step /= 2) {
    if (tree.has(tree.self + step)) post_send(call, values, tree.rank(tree.self + step));
  }
  call.complete("MPI_Isend");
}

void short_all_reduce(MpiRequests& call, Bytes values, DType dtype, ReduceOp op) {
  if (values.size() > most_exchanged) return reduce_in_parts(call, values, dtype, op);
  exchange_all(call, values, dtype, op);
}

void short_reduce(MpiRequests& call, Bytes values, DType dtype, ReduceOp op, int root) {
  const Combination combine(dtype, op);
  const Tree tree(call.group(), root);
  Bytes theirs;
  for (int step = 1; tree.has(step); step *= 2) {
    if ((tree.self & step) != 0) {
      post_send(call, values, tree.rank(tree.self - step));
      return call.complete("MPI_Isend");
    }
    if (!tree.has(tree.self + step)) continue;
    if (theirs.empty()) {
      theirs = call.scratch(values.size());
      if (tree.self != 0) {
        const Bytes own = call.scratch(values.size());
        copy_bytes(own, values);
        values = own;
      }
    }
    post_recv(call, theirs, tree.rank(tree.self + step));
    call.complete("MPI_Irecv");
    combine(values, values, theirs);
  }
}

void short_all_gather(MpiRequests& call, std::span<const Bytes> outputs, ConstBytes input) {
  const auto output = [&](int rank) { return outputs[static_cast<std::size_t>(rank)]; };
  for_each_peer(call.group(), [&](int peer) { post_recv(call, output(peer), peer); });
  for_each_peer(call.group(), [&](int peer) { post_send(call, input, peer); });
  copy_bytes(output(call.group().rank()), input);
  call.complete("MPI_Irecv");
}

void short_reduce_scatter(MpiRequests& call, Bytes output, std::span<const ConstBytes> parts, DType dtype,
                          ReduceOp op) {
  const auto part = [&](int rank) { return parts[static_cast<std::size_t>(rank)]; };
  const MpiGroup& group = call.group();
  if (group.size() == 1) return copy_bytes(output, part(0));
  const auto size = static_cast<std::size_t>(group.size());
  const Bytes theirs = call.scratch(size * output.size());
  const auto from = [&](int rank) {
    return theirs.subspan(static_cast<std::size_t>(rank) * output.size(), output.size());
  };
  for_each_peer(group, [&](int peer) { post_recv(call, from(peer), peer); });
  for_each_peer(group, [&](int peer) { post_send(call, part(peer), peer); });
  call.complete("MPI_Irecv");
  const Combination combine(dtype, op);
  const auto values = [&](int rank) { return rank == group.rank() ? part(rank) : ConstBytes(from(rank)); };
  const Bytes sum = from(group.rank());  // the output may be this rank's part
  combine(sum, values(0), values(1));
  for (int rank = 2; rank < group.size(); ++rank) combine(sum, sum, values(rank));
  copy_bytes(output, sum);
}

}  // namespace dlaunch::internal
