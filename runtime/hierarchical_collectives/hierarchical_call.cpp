#include "runtime/hierarchical_collectives/hierarchical_call.h"

#include "runtime/collectives/barrier.h"

namespace dlaunch::internal {

HierarchicalCall::HierarchicalCall(const HierarchicalGroup& group, const CollectiveFingerprint& fingerprint,
                                   std::uint64_t sequence, Deadline deadline)
    : hosts_(group.hosts),
      transport_(group.transport),
      workspace_(group.workspace),
      fingerprint_(fingerprint),
      sequence_(sequence),
      deadline_(deadline),
      rank_(group.transport.rank()),
      own_host_(group.hosts.host_of(rank_)) {
  if (group.memory != nullptr)
    local_.emplace(*group.memory, workspace_, group.orders, fingerprint, deadline, hosts_.ranks());
}

int HierarchicalCall::delegate_of(std::size_t host) const {
  if (root_ != no_root && hosts_.host_of(root_) == host) return root_;
  return hosts_.ranks_of(host).front();
}

int HierarchicalCall::delegate_place() const {
  return static_cast<int>(hosts_.place_of(delegate_of(own_host_)));
}

std::vector<int> HierarchicalCall::own_rail() const {
  std::vector<int> rail;
  rail.reserve(hosts_.hosts());
  for (std::size_t host = 0; host < hosts_.hosts(); ++host)
    rail.push_back(hosts_.ranks_of(host)[hosts_.place_of(rank_)]);
  return rail;
}

// REQUIRES: the root is known, and this rank is a delegate.
Exchange& HierarchicalCall::exchange() {
  if (!exchange_) {
    for (std::size_t host = 0; host < hosts_.hosts(); ++host) delegates_.push_back(delegate_of(host));
    exchange_.emplace(transport_, workspace_, fingerprint_, sequence_, deadline_, delegates_);
  }
  return *exchange_;
}

void HierarchicalCall::broadcast_on_host(Bytes values) {
  if (local_) local_->broadcast(values, delegate_place());
}

void HierarchicalCall::barrier() {
  if (local_) local_->barrier();
  if (is_delegate()) internal::barrier(exchange());
  broadcast_on_host({});
}

}  // namespace dlaunch::internal
