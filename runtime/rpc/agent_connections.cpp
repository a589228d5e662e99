// How an agent connects with others, and others with it.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/start_thread.h"
#include "runtime/rpc/agent.h"
#include "runtime/rpc/memory_offer.h"
#include "runtime/sockets/dial.h"
#include "runtime/sockets/host_socket.h"

namespace dlaunch::internal {

namespace {

constexpr auto connect_limit = std::chrono::seconds(30);
constexpr auto without_descriptors = std::chrono::milliseconds(50);

}  // namespace

// On a thread of its own: connecting may take long, and every other thread may wait for calls.
void Agent::connect(Peer& peer) {
  try {
    start_thread([self = shared_from_this(), &peer] { self->connect_now(peer); }).detach();
  } catch (const DistBackendError& e) {
    threads_->post([self = shared_from_this(), &peer, why = e.reason()] { peer.fail_all(nullptr, why); });
  }
}

void Agent::connect_now(Peer& peer) {
  const Contact& there = peer.worker().contact;
  const Deadline deadline = deadline_after(connect_limit);
  const LossCheck check = [this] {
    if (ending_) throw DistNetworkError("this worker ends its remote calls");
  };
  try {
    std::optional<Descriptor> socket;
    if (on_host_) socket.emplace(dial_on_host(there, self_.contact.id, deadline, check));
    const bool within_host = socket && socket->is_open();
    if (!within_host) {
      socket.reset();
      socket.emplace(dial(there, self_.contact.id, deadline, check, std::chrono::milliseconds(0)));
      prepare(socket->get());
    }
    std::unique_ptr<ByteRings> rings =
        within_host ? offer_memory(socket->get(), in_memory_, deadline, check) : nullptr;
    const std::shared_ptr<Link> link = add_link(std::move(*socket), peer.worker().id, Link::Offer::none);
    link->within_host = within_host;
    if (rings) link->use(std::move(rings));
    link->send({PartHead::hello, 0, hello_bytes(self_.id)});
    peer.on_connected(link);
    link->watch();
  } catch (const DistNetworkError& e) {
    peer.fail_all(nullptr, "cannot be reached: it died, or the network is broken (" + e.reason() + ")");
  }
}

void Agent::accept_connections(const Descriptor& listener) {
  for (;;) {
    Descriptor socket = accept_from(listener.get());
    if (!socket.is_open()) {
      if (errno != EMFILE && errno != ENFILE) return;
      {
        const std::lock_guard lock(mutex_);
        pending_.drop_all();
      }
      return wake_at(deadline_after(without_descriptors));
    }
    std::uint64_t token = 0;
    {
      const std::lock_guard lock(mutex_);
      token = ++last_token_;
      threads_->watch(socket.get(), token);
      pending_.add(token, std::move(socket));
    }
    wake_at(deadline_after(PendingConnections::handshake_timeout));
    authenticate(token);
  }
}

void Agent::authenticate(std::uint64_t token) {
  std::unique_lock lock(mutex_);
  std::optional<PendingConnections::Member> member = pending_.authenticate(token, self_.contact);
  lock.unlock();
  if (!member) return;
  epoll_ctl(threads_->poll(), EPOLL_CTL_DEL, member->socket.get(), nullptr);
  prepare(member->socket.get());
  int family = 0;
  socklen_t size = sizeof family;
  getsockopt(member->socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size);
  const Link::Offer on_host = in_memory_ ? Link::Offer::taken : Link::Offer::refused;
  add_link(std::move(member->socket), std::nullopt, family == AF_UNIX ? on_host : Link::Offer::none)->watch();
}

}  // namespace dlaunch::internal
