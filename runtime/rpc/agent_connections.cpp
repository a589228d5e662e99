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
#include "runtime/rendezvous/liveness_socket.h"
#include "runtime/rpc/agent.h"
#include "runtime/rpc/memory_offer.h"
#include "runtime/shared_memory/processors.h"
#include "runtime/sockets/dial.h"
#include "runtime/sockets/host_socket.h"
#include "store/base/random.h"

namespace dlaunch::internal {

namespace {

constexpr auto connect_limit = std::chrono::seconds(30);
constexpr auto without_descriptors = std::chrono::milliseconds(50);

}  // namespace

std::shared_ptr<Link> Agent::add_link(Descriptor socket, std::optional<std::uint32_t> worker,
                                      Link::Offer offer) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t token = ++last_token_;
  auto link = std::make_shared<Link>(std::move(socket), threads_->poll(), token, offer);
  link->callee = worker;
  links_.emplace(token, link);
  return link;
}

std::shared_ptr<Link> Agent::find_link(std::uint64_t token) {
  const std::lock_guard lock(mutex_);
  const auto at = links_.find(token);
  return at == links_.end() ? nullptr : at->second;
}

// On a thread of its own: connecting may take long, and every other thread may wait for calls.
void Agent::connect(Peer& peer) {
  try {
    start_thread([self = shared_from_this(), &peer] { self->connect_now(peer); }).detach();
  } catch (const DistBackendError& e) {
    threads_->post([self = shared_from_this(), &peer, why = e.reason()] { peer.fail_all(nullptr, why); });
  }
}

// Asks for the worker's address if it is not known. False: there is none.
bool Agent::find_out(Peer& peer) {
  if (!observer_.find_worker || peer.worker().contact.port != 0) return true;
  const std::optional<WorkerContact> found = observer_.find_worker(peer.worker().id);
  return found && peer.learn(*found);
}

void Agent::connect_now(Peer& peer) {
  try {
    if (!find_out(peer)) return on_unreachable(peer, "");
    const std::shared_ptr<Link> link = make_link(peer.worker());
    link->send({PartHead::hello, 0, to_bytes(Hello{self_.id, self_.name, self_.host, self_.rank})});
    peer.on_connected(link);
    link->watch();
  } catch (const DistNetworkError& e) {
    on_unreachable(peer, "cannot be reached: it died, or the network is broken (" + e.reason() + ")");
  } catch (const DistError& e) {
    peer.fail_all(nullptr, "was not found in the store (" + e.reason() + ")");
  }
}

// Throws DistNetworkError.
std::shared_ptr<Link> Agent::make_link(const WorkerContact& worker) {
  const Contact& there = worker.contact;
  const Deadline deadline = deadline_after(connect_limit);
  const LossCheck check = [this] {
    if (ending_) throw DistNetworkError("this worker ends its remote calls");
  };
  const ProcessId pair = random_bytes(process_id_size);
  std::optional<Descriptor> socket;
  if (on_host_) socket.emplace(dial_on_host(there, pair, deadline, check));
  const bool within_host = socket && socket->is_open();
  if (!within_host) {
    socket.reset();
    socket.emplace(dial(there, pair, deadline, check, std::chrono::milliseconds(0)));
    prepare(socket->get());
  }
  std::unique_ptr<SharedRings> shared =
      within_host ? offer_memory(socket->get(), in_memory_, deadline, check) : nullptr;
  std::shared_ptr<Link> link = add_link(std::move(*socket), worker.id, Link::Offer::none);
  link->within_host = within_host;
  link->pair = pair;
  if (shared) link->use(std::move(shared));
  return link;
}

// `why`, unless the worker is known to have left.
void Agent::on_unreachable(Peer& peer, const std::string& why) {
  bool has_left = why.empty();
  try {
    has_left = has_left || (observer_.find_worker && !ending_ && !observer_.find_worker(peer.worker().id));
  } catch (const DistError&) {  // NOLINT(bugprone-empty-catch): then it is not known
  }
  if (has_left) peer.close(Peer::has_ended);
  peer.fail_all(nullptr, has_left ? Peer::has_ended : why);
}

bool Agent::is_gone(std::uint32_t id) {
  Peer& looked_at = peer(id);
  try {
    return !find_out(looked_at) || is_gone(looked_at.worker());
  } catch (const DistError&) {
    return false;
  }
}

bool Agent::is_gone(const WorkerContact& worker) {
  return LivenessSocket::is_closed(worker.contact.address + " " + std::to_string(worker.contact.port));
}

// A worker that comes later is known by its id at first.
Peer& Agent::peer(std::uint32_t id) {
  Peer* const known = peers_.find(id);
  return known != nullptr ? *known
                          : peers_.add({.name = "", .id = id, .host = "", .contact = {}, .rank = id}, hooks_);
}

void Agent::learn(const WorkerContact& worker) {
  (void)peer(worker.id).learn(worker);
  if (worker.host == self_.host) add_neighbours(0, worker.processors);
}

// Those that are bound may be bound to processors of their own.
void Agent::add_neighbours(std::size_t count, const ProcessorSet& processors) {
  const std::lock_guard lock(mutex_);
  neighbours_ += count;
  add_to(processors_, processors);
  may_look_ = neighbours_ <= size_of(processors_);
}

// False: the bytes are not those of a worker of this group.
bool Agent::on_hello(const std::shared_ptr<Link>& link, std::string_view bytes) {
  const std::optional<Hello> hello = parse_hello(bytes);
  if (!hello || hello->worker >= PeerTable::most_ids) return false;
  WorkerContact worker{std::string(hello->name), hello->worker, std::string(hello->host), {}, hello->rank};
  if (!why_no_worker_name(worker.name).empty()) return false;
  if (!observer_.find_worker && peers_.find(worker.id) == nullptr) return false;
  Peer& from = peer(worker.id);
  const bool is_new = from.worker().name.empty();
  if (!from.learn(worker)) return false;
  if (is_new && worker.host == self_.host) add_neighbours(1, {});
  link->caller = worker.id;
  return add_pair(link);
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
  if (take_side(member->socket, member->id)) return;
  int family = 0;
  socklen_t size = sizeof family;
  getsockopt(member->socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size);
  const Link::Offer on_host = in_memory_ ? Link::Offer::taken : Link::Offer::refused;
  const std::shared_ptr<Link> link =
      add_link(std::move(member->socket), std::nullopt, family == AF_UNIX ? on_host : Link::Offer::none);
  link->pair = member->id;
  link->watch();
}

}  // namespace dlaunch::internal
