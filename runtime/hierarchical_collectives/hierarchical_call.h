// The collectives of one group whose ranks are on several hosts, some of which share memory.
//
// The ranks of a host collect their data at one of them, its delegate; the delegates exchange them by the
// algorithms over messages; each delegate then distributes the result on its host. So between two hosts there
// pass as many bytes, and as few messages, as if each had one rank. The delegate is the root of the call on
// the root's host, and the lowest rank elsewhere. In an all_to_all, and in a gather or scatter of long
// blocks, each rank itself exchanges its blocks with the ranks of the other hosts: no other way moves fewer
// bytes. In a reduce_scatter of long blocks each rank exchanges its host's sums with the ranks at its place
// on the other hosts. (Hierarchical collectives: T. Kielmann et al., "MagPIe: MPI's collective communication
// operations for clustered wide area systems", 1999.)
//
// All ranks get the same bits, independent of timing. They may differ from those of a group in which no rank
// shares memory, since a sum is combined first on each host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dlaunch/backend.h"
#include "dlaunch/transport.h"
#include "runtime/collectives/collective_fingerprint.h"
#include "runtime/collectives/exchange.h"
#include "runtime/collectives/workspace.h"
#include "runtime/shared_collectives/call_functions.h"
#include "runtime/shared_collectives/shared_call.h"
#include "runtime/shared_memory/group_memory.h"
#include "runtime/shared_memory/host_map.h"

namespace dlaunch::internal {

// What the calls of one group have in common.
struct HierarchicalGroup {
  const HostMap& hosts;
  Transport& transport;
  GroupMemory* memory;  // of this rank's host; null: it is alone there
  Workspace& workspace;
  ReductionOrders& orders;  // of the ranks of this host
};

// One call. Errors, deadlines and REQUIRES are those of the collectives over messages.
class HierarchicalCall {
 public:
  using Bytes = std::span<std::byte>;
  using ConstBytes = std::span<const std::byte>;

  // REQUIRES: all that is passed outlives the call; calls of one group come one at a time, in the same order
  // on all ranks.
  HierarchicalCall(const HierarchicalGroup& group, const CollectiveFingerprint& fingerprint,
                   std::uint64_t sequence, Deadline deadline);

  void all_reduce(Bytes values, DType dtype, const Reduction& reduction);
  void all_reduce_coalesced(std::span<const Bytes> tensors, DType dtype, const Reduction& reduction);
  void reduce(Bytes values, DType dtype, const Reduction& reduction, int root);
  void reduce_scatter(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                      const Reduction& reduction);
  void broadcast(Bytes values, int src);
  void all_gather(std::span<const Bytes> outputs, ConstBytes input);
  void gather(std::span<const Bytes> outputs, ConstBytes input, int root);
  void scatter(Bytes output, std::span<const ConstBytes> inputs, int root);
  void all_to_all(std::span<const Bytes> outputs, std::span<const ConstBytes> inputs);
  void barrier();

 private:
  static constexpr int no_root = -1;
  // Bytes of a reduce_scatter: below, one message between two hosts is faster than several at once.
  static constexpr std::size_t rails_limit = std::size_t{128} * 1024;

  // The root on its host, the lowest rank on others.
  [[nodiscard]] int delegate_of(std::size_t host) const;
  [[nodiscard]] bool is_delegate() const { return delegate_of(own_host_) == rank_; }
  // The place of this host's delegate among its ranks.
  [[nodiscard]] int delegate_place() const;
  [[nodiscard]] const std::vector<int>& own_ranks() const { return hosts_.ranks_of(own_host_); }
  // Between the delegates.
  Exchange& exchange();

  // The ranks at this rank's place, one of each host, in their order. REQUIRES: hosts_are_even().
  [[nodiscard]] std::vector<int> own_rail() const;
  void reduce_scatter_on_rails(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                               const Reduction& reduction);
  void reduce_on_host(Bytes values, DType dtype, const Reduction& reduction);
  void broadcast_on_host(Bytes values);

  Bytes own_scratch(std::size_t size) { return workspace_.scratch(size, Workspace::of_hosts); }
  template <class Span>
  std::vector<Span> of_host(std::span<const Span> blocks, std::size_t host) const;
  [[nodiscard]] std::vector<Bytes> cut(Bytes row, std::size_t block) const;
  [[nodiscard]] bool hosts_are_even() const;
  void gather_rows(std::span<const Bytes> rows, ConstBytes own, int root_host);
  void gather_long(std::span<const Bytes> outputs, ConstBytes input, int root);
  void scatter_long(Bytes output, std::span<const ConstBytes> inputs, int root);
  void scatter_rows(Bytes own, std::span<const ConstBytes> rows, int root_host);

  const HostMap& hosts_;
  Transport& transport_;
  Workspace& workspace_;
  const CollectiveFingerprint& fingerprint_;
  const std::uint64_t sequence_;
  const Deadline deadline_;
  const int rank_;
  const std::size_t own_host_;
  std::optional<SharedCall> local_;  // none: this rank is alone on its host
  int root_ = no_root;               // of this call
  std::vector<int> delegates_;       // by host; of exchange_
  std::optional<Exchange> exchange_;
};

// The blocks of that host's ranks.
template <class Span>
std::vector<Span> HierarchicalCall::of_host(std::span<const Span> blocks, std::size_t host) const {
  std::vector<Span> found;
  for (const int rank : hosts_.ranks_of(host)) found.push_back(blocks[static_cast<std::size_t>(rank)]);
  return found;
}

}  // namespace dlaunch::internal
