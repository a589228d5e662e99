// The memory that a group shares on this host.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/backends/gloo/tcp_eager_channel.h"
#include "runtime/backends/gloo/tcp_transport.h"
#include "runtime/base/deadline.h"
#include "runtime/shared_memory/memory_limit.h"

namespace dlaunch::internal {

namespace {

// Of one rank in one group; it takes them when it sends long data, and messages to all others.
std::size_t most_bytes(std::size_t ranks) {
  return 2 * shared::half_staging_size + shared::window * shared::short_size +
         shared::eager_window * shared::eager_size + ranks * shared::ring_size(ranks);
}

bool is_off(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "0";
}

}  // namespace

std::string TcpTransport::why_no_memory_is_wanted(std::size_t ranks) {
  if (is_off("DLAUNCH_SHM")) return "DLAUNCH_SHM is 0";
  if (const auto why = why_memory_does_not_fit(most_bytes(ranks))) return *why;
  return "";
}

// On the endpoint's thread, or on the program's with the endpoint's mutex held.
int TcpTransport::memory_file() {
  if (memory_is_settled_) return -1;
  if (!memory_file_ && why_no_memory_.empty())
    memory_file_.emplace(
        [this] { return Segment::make_file(static_cast<std::size_t>(size_), why_no_memory_); });
  return memory_file_ ? memory_file_->get() : -1;
}

TcpTransport::MemoryOffer TcpTransport::find_memory(const BackendContext& context) {
  const std::vector<Contact> lower_ranks = std::exchange(lower_ranks_, {});
  const auto is_wanted = [this] {
    const EndpointLock lock(endpoint_->mutex());
    return why_no_memory_.empty();
  };
  MemoryOffer& offer = memory_offer_;
  offer.maker = is_wanted() ? map_memory(lower_ranks, context) : -1;
  const EndpointLock lock(endpoint_->mutex());
  if (segment_) offer.identity = segment_->identity();
  std::memcpy(offer.why, why_no_memory_.data(), std::min(why_no_memory_.size(), sizeof offer.why - 1));
  return offer;
}

// Returns the rank that made it; -1: none could be mapped.
int TcpTransport::map_memory(std::span<const Contact> lower_ranks, const BackendContext& context) {
  const auto map = [&](int fd, int maker) {
    segment_ = Segment::map(fd, static_cast<std::size_t>(size_), why_no_memory_);
    return segment_ ? maker : -1;
  };
  for (std::size_t rank = 0; rank < lower_ranks.size(); ++rank) {
    const Descriptor file = endpoint_->memory_from(lower_ranks[rank], context.deadline, context.check);
    if (!file.is_open()) continue;
    const EndpointLock lock(endpoint_->mutex());
    return map(file.get(), static_cast<int>(rank));
  }
  const EndpointLock lock(endpoint_->mutex());
  const int fd = memory_file();
  return fd >= 0 ? map(fd, rank_) : -1;
}

// Ranks without memory are alone.
HostMap TcpTransport::host_map_of(std::span<const MemoryOffer> offers) {
  std::vector<std::pair<std::int64_t, std::uint64_t>> memories;
  for (const MemoryOffer& offer : offers) {
    const auto rank = static_cast<std::int64_t>(memories.size());
    memories.emplace_back(offer.maker < 0 ? -1 - rank : offer.maker, offer.identity);
  }
  return HostMap::of(std::span<const std::pair<std::int64_t, std::uint64_t>>(memories));
}

void TcpTransport::share_memory(std::span<const MemoryOffer> offers) {
  HostMap hosts = host_map_of(offers);
  const std::vector<int>& members = hosts.ranks_of(hosts.host_of(rank_));
  const bool all_share = hosts.hosts() == 1;
  std::unique_ptr<GroupMemory> memory;
  std::unique_ptr<MessageRings> rings;
  if (segment_ && members.size() > 1) {
    rings = std::make_unique<MessageRings>(segment_, members, hosts.place_of(rank_));
    memory = std::make_unique<GroupMemory>(std::exchange(segment_, nullptr), members, hosts.place_of(rank_),
                                           [this](int rank) { check_peer(rank); });
    const auto on_idle = [this, &group = *memory] { find_ended(group); };
    memory->set_on_idle(on_idle);
    rings->set_on_idle(on_idle);
    if (is_off("DLAUNCH_SHM_DIRECT")) {
      memory->forbid_direct_reads();
      rings->forbid_direct_reads();
    }
  }
  const EndpointLock lock(endpoint_->mutex());
  if (!all_share && hosts.hosts() < hosts.ranks()) hosts_ = std::move(hosts);
  shared_memory_ = std::move(memory);
  message_rings_ = std::move(rings);
  segment_.reset();
  memory_file_.reset();
  memory_is_settled_ = true;
  if (shared_memory_) eager_channel_->free_unused();
}

// Ranks whose processes have ended are lost, though their connections are open still. On any thread that
// waits for a rank of this host, and again soon after: what a rank has sent at its end comes meanwhile.
void TcpTransport::find_ended(const GroupMemory& memory) {
  constexpr auto confirmation = std::chrono::milliseconds(20);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (i == memory.self()) continue;
    const bool seems_ended = memory.seems_ended(i);
    const EndpointLock lock(endpoint_->mutex());
    Peer& peer = peer_of(memory.member(i));
    if (!seems_ended) {
      peer.seems_ended_since.reset();
    } else if (!peer.seems_ended_since) {
      peer.seems_ended_since = std::chrono::steady_clock::now();
    } else if (!peer.lost && has_passed(*peer.seems_ended_since + confirmation)) {
      endpoint_->report_end(*peer.connection);
    }
  }
}

// Throws if the group has ended, or that rank, if it is one, has left.
void TcpTransport::check_peer(int rank) {
  EndpointLock lock(endpoint_->mutex());
  throw_if_ended(lock);
  if (rank != GroupMemory::no_rank && peer_of(rank).left) throw_left(rank);
}

}  // namespace dlaunch::internal
