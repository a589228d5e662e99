#include "runtime/backends/gloo/tcp_eager_channel.h"

#include <sys/mman.h>

#include <new>

#include "runtime/backends/gloo/tcp_wait.h"
#include "runtime/base/errors.h"

namespace dlaunch::internal {

TcpTransport::TcpEagerChannel::TcpEagerChannel(TcpTransport& owner)
    : owner_(owner), drafts_(static_cast<std::size_t>(owner.size_)) {}

void UnmapPages::operator()(std::byte* memory) const { munmap(memory, size); }

// Not of the heap: it would keep a hole in the place of what is freed, which an aligned block does not fit
// into again.
EagerMemory TcpTransport::TcpEagerChannel::map(std::size_t size) {
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), UnmapPages{size}};
}

std::byte* TcpTransport::TcpEagerChannel::next_cell(EagerReceiveBuffer& channel) {
  if (!channel.cells) channel.cells = map(EagerChannel::max_unreceived * cell_size);
  return cell(channel, channel.arrived++);
}

void TcpTransport::TcpEagerChannel::free_unused() {
  for (auto& draft : drafts_) draft.reset();
  for (Peer& peer : owner_.peers_) {
    EagerReceiveBuffer& channel = peer.eager_received;
    if (channel.released == channel.arrived) channel.cells.reset();
  }
}

std::byte* TcpTransport::TcpEagerChannel::compose(int peer, Deadline deadline) {
  auto& draft = drafts_[static_cast<std::size_t>(peer)];
  if (!draft) draft = map(cell_size);
  EndpointLock lock(owner_.endpoint_->mutex());
  Peer& there = owner_.peer_of(peer);
  const auto has_room = [&] { return there.eager_sent < there.eager_send_limit; };
  const Wait wait(owner_, lock, wakeup_, deadline, [&] { return has_room() || there.left; });
  owner_.throw_if_ended(lock);
  if (there.left) owner_.throw_left(peer);
  return has_room() ? draft.get() : nullptr;
}

void TcpTransport::TcpEagerChannel::send(int peer, std::size_t length) {
  EndpointLock lock(owner_.endpoint_->mutex());
  Peer& there = owner_.peer_of(peer);
  ++there.eager_sent;
  Frame frame = owner_.frame_to(there, Frame::eager, 0);
  frame.length = static_cast<std::uint32_t>(length);
  there.connection->send(lock, frame, {drafts_[static_cast<std::size_t>(peer)].get(), length});
}

const std::byte* TcpTransport::TcpEagerChannel::receive(int peer, Deadline deadline) {
  EndpointLock lock(owner_.endpoint_->mutex());
  Peer& there = owner_.peer_of(peer);
  const EagerReceiveBuffer& channel = there.eager_received;
  const auto is_here = [&] { return channel.released < channel.arrived; };
  const Wait wait(owner_, lock, wakeup_, deadline, [&] { return is_here() || there.left; });
  if (!is_here() && deadline == Deadline::min()) return nullptr;
  owner_.throw_if_ended(lock);
  if (is_here()) return cell(channel, channel.released);
  if (there.left) owner_.throw_left(peer);
  return nullptr;
}

void TcpTransport::TcpEagerChannel::release(int peer) noexcept {
  EndpointLock lock(owner_.endpoint_->mutex());
  Peer& there = owner_.peer_of(peer);
  if (++there.eager_received.released % released_at_once == 0)
    there.connection->send(lock, owner_.frame_to(there, Frame::credit, 0));
}

}  // namespace dlaunch::internal
