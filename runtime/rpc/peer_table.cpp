#include "runtime/rpc/peer_table.h"

namespace dlaunch::internal {

Peer* PeerTable::find(std::uint32_t id) const {
  if (id >= most_ids) return nullptr;
  const Part* const part = (*parts_)[id / part_size].load(std::memory_order_acquire);
  return part == nullptr ? nullptr : (*part)[id % part_size].load(std::memory_order_acquire);
}

Peer& PeerTable::add(const WorkerContact& worker, const Peer::Hooks& hooks) {
  const std::lock_guard lock(mutex_);
  if (Peer* const known = find(worker.id)) return *known;
  std::atomic<Part*>& part = (*parts_)[worker.id / part_size];
  if (part == nullptr) part = owned_parts_.emplace_back(std::make_unique<Part>()).get();
  Peer* const peer = peers_.emplace_back(std::make_unique<Peer>(worker, hooks)).get();
  (*part)[worker.id % part_size].store(peer, std::memory_order_release);
  return *peer;
}

std::vector<Peer*> PeerTable::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Peer*> all;
  all.reserve(peers_.size());
  for (const auto& peer : peers_) all.push_back(peer.get());
  return all;
}

}  // namespace dlaunch::internal
