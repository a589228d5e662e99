// The other workers that this one knows, by id. Ids may be far apart: a group whose workers come and go does
// not choose them close to each other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/rpc/peer.h"

namespace dlaunch::internal {

// Any thread. Peers stay until the end.
class PeerTable {
 public:
  static constexpr std::uint32_t most_ids = 1U << 24U;  // and lower ones only

  PeerTable() : parts_(std::make_unique<std::array<std::atomic<Part*>, part_size>>()) {}

  // Without a lock. Null: it knows none with this id.
  [[nodiscard]] Peer* find(std::uint32_t id) const;
  // The one with this worker's id, which is made if there is none. REQUIRES: the id is low enough.
  Peer& add(const WorkerContact& worker, const Peer::Hooks& hooks);
  // In the order in which they were added.
  [[nodiscard]] std::vector<Peer*> all() const;

 private:
  static constexpr std::size_t part_size = 4096;  // its square is most_ids
  using Part = std::array<std::atomic<Peer*>, part_size>;

  const std::unique_ptr<std::array<std::atomic<Part*>, part_size>> parts_;
  mutable std::mutex mutex_;
  // protected by mutex_
  std::vector<std::unique_ptr<Part>> owned_parts_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace dlaunch::internal
