// The collectives that reduce.
#include <vector>

#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/coalesced.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/reduce_to_root.h"
#include "runtime/hierarchical_collectives/hierarchical_call.h"
#include "runtime/hierarchical_collectives/rows.h"
#include "runtime/reduce/integer_avg.h"
#include "runtime/reduce/reduce.h"
#include "runtime/shared_collectives/rounds.h"

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
    return average(values, dtype, static_cast<int>(hosts_.ranks()), true,
                   [&](Bytes parts) { all_reduce(parts, DType::int64, {}); });
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
    return average(values, dtype, static_cast<int>(hosts_.ranks()), rank_ == root,
                   [&](Bytes parts) { reduce(parts, DType::int64, {}, root); });
  }
  root_ = root;
  if (!is_delegate()) return reduce_on_host(values, dtype, reduction);
  // The values of other ranks than the root stay as they are.
  Bytes sum = values;
  if (rank_ != root && !values.empty()) {
    sum = own_scratch(values.size());
    copy(sum.data(), values);
  }
  reduce_on_host(sum, dtype, reduction);
  reduce_to_root(exchange(), sum, dtype, without_factor(reduction), static_cast<int>(hosts_.host_of(root)));
}

// The ranks of one place are a rail: each rank reduces its host's values of the blocks of its rail's ranks,
// which then exchange them, several rails at once. No rank copies what is another's.
void HierarchicalCall::reduce_scatter_on_rails(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                                               const Reduction& reduction) {
  const std::vector<int> rail = own_rail();
  std::size_t total = 0;
  for (const int rank : rail) total += inputs[static_cast<std::size_t>(rank)].size();
  Bytes scratch = own_scratch(total);
  std::vector<Bytes> sums;
  sums.reserve(rail.size());
  for (const int rank : rail) sums.push_back(take(scratch, inputs[static_cast<std::size_t>(rank)].size()));
  for (std::size_t host = 0; host < hosts_.hosts(); ++host)
    local_->reduce_scatter(sums[host], of_host(inputs, host), dtype, reduction);
  Exchange exchange(transport_, workspace_, fingerprint_, sequence_, deadline_, rail);
  internal::reduce_scatter(exchange, output, std::vector<ConstBytes>(sums.begin(), sums.end()), dtype,
                           without_factor(reduction));
}

// Each host reduces all blocks, in the order of the hosts; the delegates exchange what is for each host.
void HierarchicalCall::reduce_scatter(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                                      const Reduction& reduction) {
  if (is_integer_avg(dtype, reduction)) {
    return reduce_scatter_of_means(
        output, inputs, dtype, static_cast<int>(hosts_.ranks()), static_cast<std::size_t>(rank_),
        [&](Bytes sum, std::span<const ConstBytes> wide) { reduce_scatter(sum, wide, DType::int64, {}); });
  }
  const std::size_t total = size_of_all(inputs);
  if (total >= rails_limit && local_ && hosts_are_even())
    return reduce_scatter_on_rails(output, inputs, dtype, reduction);
  const Bytes all = own_scratch(total);
  Bytes scratch = all;
  std::vector<Bytes> rows;
  for (std::size_t host = 0; host < hosts_.hosts(); ++host) {
    const std::vector<ConstBytes> blocks = of_host(inputs, host);
    rows.push_back(take(scratch, size_of_all(std::span<const ConstBytes>(blocks))));
    pack(rows.back(), blocks);
  }
  reduce_on_host(all, dtype, reduction);
  const Bytes result = rows[own_host_];
  if (is_delegate()) {
    const std::vector<ConstBytes> parts(rows.begin(), rows.end());
    internal::reduce_scatter(exchange(), result, parts, dtype, without_factor(reduction));
  }
  broadcast_on_host(result);
  std::size_t at = 0;
  for (std::size_t i = 0; i < hosts_.place_of(rank_); ++i)
    at += inputs[static_cast<std::size_t>(own_ranks()[i])].size();
  copy(output.data(), result.subspan(at, output.size()));
}

}  // namespace dlaunch::internal
