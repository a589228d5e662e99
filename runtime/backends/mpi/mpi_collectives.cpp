#include "runtime/backends/mpi/mpi_collectives.h"

#include <algorithm>
#include <vector>

#include "runtime/backends/mpi/mpi_error.h"
#include "runtime/backends/mpi/mpi_pairwise_collectives.h"
#include "runtime/backends/mpi/mpi_short_collectives.h"
#include "runtime/backends/mpi/mpi_types.h"
#include "runtime/base/short_array.h"
#include "runtime/reduce/integer_avg.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

namespace {

using Bytes = std::span<std::byte>;

// Units of a type in one call. A reduction takes as much memory again inside MPI: so long ones go in parts.
constexpr std::size_t most_units = std::size_t{1} << 28U;
// Only MPI itself may touch the memory of a device.
constexpr Device on_host{};

std::size_t total(std::span<const Tensor> tensors) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

bool are_equal(std::span<const Tensor> tensors) {
  return std::ranges::all_of(
      tensors, [&](const Tensor& tensor) { return tensor.nbytes() == tensors.front().nbytes(); });
}

// Each begins where the one before it ends.
bool are_adjacent(std::span<const Tensor> tensors) {
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].bytes().data() != tensors[i - 1].bytes().data() + tensors[i - 1].nbytes()) return false;
  }
  return true;
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

// Calls `post(first, units)` for each part, and waits for it.
template <class Post>
void in_parts(MpiRequests& call, std::size_t units, const char* name, const Post& post) {
  std::size_t first = 0;
  do {
    const std::size_t length = std::min(most_units, units - first);
    {
      const MpiCallLock lock;
      require_mpi(post(first, static_cast<int>(length)), name);
    }
    call.complete(name);
    first += length;
  } while (first < units);
}

std::size_t unit_size(DType dtype, const MpiArithmetic& arithmetic) {
  return size_of(dtype) / arithmetic.units;
}

// In place.
void sum_up(MpiRequests& call, Bytes values, DType dtype, ReduceOp op, Device device = {}) {
  if (device == on_host && is_short_exchange(values.size(), call.group().size()))
    return short_all_reduce(call, values, dtype, op);
  if (device == on_host && are_few(call.group().size())) return pairwise_all_reduce(call, values, dtype, op);
  const MpiArithmetic how = mpi_arithmetic(dtype, op);
  const std::size_t unit = unit_size(dtype, how);
  in_parts(call, values.size() / unit, "MPI_Iallreduce", [&](std::size_t first, int count) {
    return MPI_Iallreduce(MPI_IN_PLACE, values.data() + first * unit, count, how.type, how.op,
                          call.group().collectives(), call.add());
  });
}

// The result is in the root's `values`; those of the others stay as they are.
void sum_up_at(MpiRequests& call, Bytes values, DType dtype, ReduceOp op, int root, Device device = {}) {
  if (device == on_host && is_short(values.size(), call.group().size()))
    return short_reduce(call, values, dtype, op, root);
  if (device == on_host && are_few(call.group().size()))
    return pairwise_reduce(call, values, dtype, op, root);
  const MpiArithmetic how = mpi_arithmetic(dtype, op);
  const std::size_t unit = unit_size(dtype, how);
  const bool is_root = call.group().rank() == root;
  in_parts(call, values.size() / unit, "MPI_Ireduce", [&](std::size_t first, int count) {
    std::byte* const part = values.data() + first * unit;
    return MPI_Ireduce(is_root ? MPI_IN_PLACE : part, is_root ? part : nullptr, count, how.type, how.op, root,
                       call.group().collectives(), call.add());
  });
}

// This rank's own values, prepared for the sum, as a copy if they are not this call's to change.
Bytes prepared(MpiRequests& call, Bytes values, DType dtype, const Reduction& reduction, bool may_change) {
  if (!needs_preparing(dtype, reduction)) return values;
  Bytes own = values;
  if (!may_change) {
    own = call.scratch(values.size());
    copy_bytes(own, values);
  }
  prepare(own, dtype, reduction, call.group().size());
  return own;
}

// The parts for all ranks in one array; a copy if they are not, or if MPI is to change them.
Bytes joined(MpiRequests& call, std::span<const Tensor> parts, bool copies) {
  if (!copies && are_adjacent(parts)) return {parts.front().bytes().data(), total(parts)};
  const Bytes whole = call.scratch(total(parts));
  std::size_t at = 0;
  for (const Tensor& part : parts) {
    copy_bytes(whole.subspan(at, part.nbytes()), part.bytes());
    at += part.nbytes();
  }
  return whole;
}

// Each rank's part is summed up at that rank; `whole` is changed.
void sum_up_parts(MpiRequests& call, const Tensor& output, std::span<const Tensor> inputs, Bytes whole,
                  ReduceOp op) {
  const MpiArithmetic how = mpi_arithmetic(output.dtype(), op);
  const std::size_t unit = unit_size(output.dtype(), how);
  if (whole.size() / unit <= most_units) {
    std::vector<int> counts;
    for (const Tensor& input : inputs) counts.push_back(static_cast<int>(input.nbytes() / unit));
    {
      const MpiCallLock lock;
      require_mpi(MPI_Ireduce_scatter(whole.data(), output.data(), counts.data(), how.type, how.op,
                                      call.group().collectives(), call.add()),
                  "MPI_Ireduce_scatter");
    }
    return call.complete("MPI_Ireduce_scatter");
  }
  std::size_t at = 0;
  for (int root = 0; root < call.group().size(); ++root) {
    const Bytes part = whole.subspan(at, inputs[index(root)].nbytes());
    sum_up_at(call, part, output.dtype(), op, root);
    if (root == call.group().rank()) copy_bytes(output.bytes(), part);
    at += part.size();
  }
}

}  // namespace

void mpi_all_reduce(MpiRequests& call, const Tensor& tensor, const Reduction& reduction) {
  const Bytes values = tensor.bytes();
  if (values.empty()) return mpi_barrier(call);
  if (is_integer_avg(tensor.dtype(), reduction)) {
    const std::vector<std::int64_t> parts = avg_parts(values, tensor.dtype(), call.group().size());
    const auto bytes = std::as_bytes(std::span(parts));
    const Bytes sum = call.scratch(bytes.size());
    copy_bytes(sum, bytes);
    sum_up(call, sum, DType::int64, ReduceOp::sum);
    return store_avg(values, tensor.dtype(),
                     {reinterpret_cast<const std::int64_t*>(sum.data()), parts.size()}, call.group().size());
  }
  sum_up(call, prepared(call, values, tensor.dtype(), reduction, true), tensor.dtype(), reduction.op,
         tensor.device());
}

void mpi_broadcast(MpiRequests& call, const Tensor& tensor, int src) {
  if (tensor.nbytes() == 0) return mpi_barrier(call);
  if (is_short_broadcast(tensor.nbytes(), call.group().size()))
    return short_broadcast(call, tensor.bytes(), src);
  in_parts(call, tensor.nbytes(), "MPI_Ibcast", [&](std::size_t first, int count) {
    return MPI_Ibcast(tensor.bytes().data() + first, count, MPI_BYTE, src, call.group().collectives(),
                      call.add());
  });
}

void mpi_all_gather(MpiRequests& call, std::span<const Tensor> outputs, const Tensor& input) {
  if (total(outputs) == 0) return mpi_barrier(call);
  if (input.device() == on_host && are_few(call.group().size())) {
    const ShortArray<Bytes> targets(outputs.size(), [&](std::size_t i) { return outputs[i].bytes(); });
    return pairwise_all_gather(call, targets, input.bytes());
  }
  if (are_equal(outputs) && (are_adjacent(outputs) || total(outputs) <= most_units)) {
    const bool direct = are_adjacent(outputs);
    const Bytes into = direct ? outputs.front().bytes() : call.scratch(total(outputs));
    const MpiBytes one(input.nbytes());
    {
      const MpiCallLock lock;
      const bool is_in_place =
          direct && input.bytes().data() == into.data() + index(call.group().rank()) * input.nbytes();
      require_mpi(
          MPI_Iallgather(is_in_place ? MPI_IN_PLACE : input.data(), one.count(), one.type(), into.data(),
                         one.count(), one.type(), call.group().collectives(), call.add()),
          "MPI_Iallgather");
    }
    call.complete("MPI_Iallgather");
    if (direct) return;
    std::size_t at = 0;
    for (const Tensor& output : outputs) {
      copy_bytes(output.bytes(), into.subspan(at, output.nbytes()));
      at += output.nbytes();
    }
    return;
  }
  copy_bytes(outputs[index(call.group().rank())].bytes(), input.bytes());
  for (int rank = 0; rank < call.group().size(); ++rank) mpi_broadcast(call, outputs[index(rank)], rank);
}

void mpi_barrier(MpiRequests& call) {
  if (is_short(0, call.group().size())) return short_barrier(call);
  {
    const MpiCallLock lock;
    require_mpi(MPI_Ibarrier(call.group().collectives(), call.add()), "MPI_Ibarrier");
  }
  call.complete("MPI_Ibarrier");
}

void mpi_reduce(MpiRequests& call, const Tensor& tensor, int dst, const Reduction& reduction) {
  const Bytes values = tensor.bytes();
  if (values.empty()) return mpi_barrier(call);
  const bool is_root = call.group().rank() == dst;
  if (is_integer_avg(tensor.dtype(), reduction)) {
    const std::vector<std::int64_t> parts = avg_parts(values, tensor.dtype(), call.group().size());
    const auto bytes = std::as_bytes(std::span(parts));
    const Bytes sum = call.scratch(bytes.size());
    copy_bytes(sum, bytes);
    sum_up_at(call, sum, DType::int64, ReduceOp::sum, dst);
    if (!is_root) return;
    return store_avg(values, tensor.dtype(),
                     {reinterpret_cast<const std::int64_t*>(sum.data()), parts.size()}, call.group().size());
  }
  sum_up_at(call, prepared(call, values, tensor.dtype(), reduction, is_root), tensor.dtype(), reduction.op,
            dst, tensor.device());
}

void mpi_gather(MpiRequests& call, std::span<const Tensor> outputs, const Tensor& input, int dst) {
  if (input.nbytes() == 0) return mpi_barrier(call);
  if (call.group().rank() != dst) {
    call.post_send(input.bytes(), dst);
    return call.complete("MPI_Isend");
  }
  for (int rank = 0; rank < call.group().size(); ++rank) {
    if (rank != dst) call.post_recv(outputs[index(rank)].bytes(), rank);
  }
  copy_bytes(outputs[index(dst)].bytes(), input.bytes());
  call.complete("MPI_Irecv");
}

void mpi_scatter(MpiRequests& call, const Tensor& output, std::span<const Tensor> inputs, int src) {
  if (output.nbytes() == 0) return mpi_barrier(call);
  if (call.group().rank() != src) {
    call.post_recv(output.bytes(), src);
    return call.complete("MPI_Irecv");
  }
  for (int rank = 0; rank < call.group().size(); ++rank) {
    if (rank != src) call.post_send(inputs[index(rank)].bytes(), rank);
  }
  copy_bytes(output.bytes(), inputs[index(src)].bytes());
  call.complete("MPI_Isend");
}

void mpi_reduce_scatter(MpiRequests& call, const Tensor& output, std::span<const Tensor> inputs,
                        const Reduction& reduction) {
  if (total(inputs) == 0) return mpi_barrier(call);
  const DType dtype = output.dtype();
  if (!is_integer_avg(dtype, reduction)) {
    if (are_few(call.group().size())) {
      const ShortArray<std::span<const std::byte>> parts(inputs.size(), [&](std::size_t i) {
        return std::span<const std::byte>(prepared(call, inputs[i].bytes(), dtype, reduction, false));
      });
      return pairwise_reduce_scatter(call, output.bytes(), parts, dtype, reduction.op);
    }
    const bool changes = needs_preparing(dtype, reduction) || total(inputs) > most_units;
    const Bytes whole = joined(call, inputs, changes);
    if (changes && needs_preparing(dtype, reduction)) prepare(whole, dtype, reduction, call.group().size());
    return sum_up_parts(call, output, inputs, whole, reduction.op);
  }
  for (int root = 0; root < call.group().size(); ++root) {
    const Tensor& input = inputs[index(root)];
    const Bytes part = call.scratch(input.nbytes());
    copy_bytes(part, input.bytes());
    const Tensor own(part.data(), dtype, input.shape());
    mpi_reduce(call, own, root, reduction);
    if (root == call.group().rank()) copy_bytes(output.bytes(), part);
  }
}

void mpi_all_to_all(MpiRequests& call, std::span<const Tensor> outputs, std::span<const Tensor> inputs) {
  MpiGroup& group = call.group();
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank != group.rank() && outputs[index(rank)].nbytes() > 0)
      call.post_recv(outputs[index(rank)].bytes(), rank);
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank != group.rank() && inputs[index(rank)].nbytes() > 0)
      call.post_send(inputs[index(rank)].bytes(), rank);
  }
  copy_bytes(outputs[index(group.rank())].bytes(), inputs[index(group.rank())].bytes());
  call.complete("MPI_Irecv");
}

}  // namespace dlaunch::internal
