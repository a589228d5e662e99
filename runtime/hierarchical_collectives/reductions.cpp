// The collectives that reduce.
#include <cstring>

#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/coalesced.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/reduce_to_root.h"
#include "runtime/hierarchical_collectives/hierarchical_call.h"
#include "runtime/reduce/integer_avg.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

namespace {

// Between the hosts: the factors have been applied on each.
Reduction without_factor(const Reduction& reduction) {
  const bool is_sum = reduction.op == ReduceOp::avg || reduction.op == ReduceOp::premul_sum;
  return {.op = is_sum ? ReduceOp::sum : reduction.op};
}

}  // namespace

// `values` of the delegate become the reduction of those of its host.
void HierarchicalCall::reduce_on_host(Bytes values, DType dtype, const Reduction& reduction) {
  if (local_) {
    local_->reduce(values, dtype, reduction, delegate_place());
  } else {
    prepare(values, dtype, reduction, static_cast<int>(hosts_.ranks()));
  }
}

void HierarchicalCall::all_reduce(Bytes values, DType dtype, const Reduction& reduction) {
  if (is_integer_avg(dtype, reduction)) {
    const int ranks = static_cast<int>(hosts_.ranks());
    std::vector<std::int64_t> parts = avg_parts(values, dtype, ranks);
    all_reduce(std::as_writable_bytes(std::span(parts)), DType::int64, {});
    return store_avg(values, dtype, parts, ranks);
  }
  reduce_on_host(values, dtype, reduction);
  if (is_delegate()) internal::all_reduce(exchange(), values, dtype, without_factor(reduction));
  broadcast_on_host(values);
}

void HierarchicalCall::all_reduce_coalesced(std::span<const Bytes> tensors, DType dtype,
                                            const Reduction& reduction) {
  pack_and_reduce(workspace_, tensors, [&](Bytes values) { all_reduce(values, dtype, reduction); });
}

void HierarchicalCall::reduce(Bytes values, DType dtype, const Reduction& reduction, int root) {
  if (is_integer_avg(dtype, reduction)) {
    const int ranks = static_cast<int>(hosts_.ranks());
    std::vector<std::int64_t> parts = avg_parts(values, dtype, ranks);
    reduce(std::as_writable_bytes(std::span(parts)), DType::int64, {}, root);
    if (rank_ == root) store_avg(values, dtype, parts, ranks);
    return;
  }
  choose_delegates(root);
  if (!is_delegate()) return reduce_on_host(values, dtype, reduction);
  // The values of other ranks than the root stay as they are.
  Bytes sum = values;
  if (rank_ != root && !values.empty()) {
    sum = own_scratch(values.size());
    std::memcpy(sum.data(), values.data(), values.size());
  }
  reduce_on_host(sum, dtype, reduction);
  reduce_to_root(exchange(), sum, dtype, without_factor(reduction), static_cast<int>(hosts_.host_of(root)));
}

// Each host reduces all blocks, in the order of the hosts; the delegates exchange what is for each host.
void HierarchicalCall::reduce_scatter(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                                      const Reduction& reduction) {
  if (is_integer_avg(dtype, reduction)) {
    return reduce_scatter_of_means(
        output, inputs, dtype, static_cast<int>(hosts_.ranks()), static_cast<std::size_t>(rank_),
        [&](Bytes sum, std::span<const ConstBytes> wide) { reduce_scatter(sum, wide, DType::int64, {}); });
  }
  std::size_t total = 0;
  for (const ConstBytes input : inputs) total += input.size();
  const Bytes all = own_scratch(total);
  std::vector<Bytes> rows;
  std::size_t at = 0;
  Bytes own;
  for (std::size_t host = 0; host < hosts_.hosts(); ++host) {
    const std::size_t begin = at;
    for (const int rank : hosts_.ranks_of(host)) {
      const ConstBytes input = inputs[static_cast<std::size_t>(rank)];
      if (!input.empty()) std::memcpy(all.data() + at, input.data(), input.size());
      if (rank == rank_) own = all.subspan(at, input.size());
      at += input.size();
    }
    rows.push_back(all.subspan(begin, at - begin));
  }
  reduce_on_host(all, dtype, reduction);
  const Bytes result = rows[own_host_];
  if (is_delegate()) {
    const std::vector<ConstBytes> parts(rows.begin(), rows.end());
    internal::reduce_scatter(exchange(), result, parts, dtype, without_factor(reduction));
  }
  broadcast_on_host(result);
  if (!own.empty()) std::memcpy(output.data(), own.data(), own.size());
}

}  // namespace dlaunch::internal
