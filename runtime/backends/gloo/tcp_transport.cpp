#include "runtime/backends/gloo/tcp_transport.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "runtime/backends/gloo/peer_key.h"
#include "runtime/backends/gloo/tcp_eager_channel.h"
#include "runtime/backends/gloo/tcp_messages.h"
#include "runtime/backends/gloo/tcp_wait.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/stragglers.h"

namespace dlaunch::internal {

namespace {

// How long a rank that gives up waits until its reason has arrived.
constexpr auto farewell_limit = std::chrono::seconds(1);
// How long the others may take to answer a progress query.
constexpr auto progress_query_limit = std::chrono::seconds(1);

std::string contact_key_of(int rank) { return "contact/" + std::to_string(rank); }

Contact contact_of(int peer, const BackendContext& context) {
  const std::optional<Contact> contact =
      parse_contact(wait_for_peer_key(peer, contact_key_of(peer), context));
  if (!contact) throw DistNetworkError("it runs another version of libdlaunch", {.peer = peer});
  if (contact->ranks != context.size) {
    throw DistNetworkError(
        "its group has another number of ranks than this rank's " + std::to_string(context.size),
        {.peer = peer});
  }
  return *contact;
}

}  // namespace

TcpTransport::TcpTransport(const BackendContext& context, std::shared_ptr<Endpoint> endpoint)
    : rank_(context.rank),
      size_(context.size),
      endpoint_(std::move(endpoint)),
      to_self_(context.size),
      peers_(static_cast<std::size_t>(context.size)),
      why_no_memory_(why_no_memory_is_wanted(static_cast<std::size_t>(size_))),
      eager_channel_(std::make_unique<TcpEagerChannel>(*this)) {
  {
    const EndpointLock lock(endpoint_->mutex());
    context_id_ = endpoint_->add(*this);
  }
  try {
    connect(context);
  } catch (const std::exception& e) {
    // The ranks that are connected with this one would wait for it.
    leave("it could not connect with all ranks: " + std::string(e.what()));
    throw;
  }
}

void TcpTransport::connect(const BackendContext& context) {
  Contact own = endpoint_->contact();
  own.context_id = context_id_;
  own.ranks = size_;
  context.store.set(contact_key_of(rank_), to_text(own));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const Contact there = contact_of(peer, context);
    if (peer < rank_) lower_ranks_.push_back(there);
    try {
      std::shared_ptr<Connection> connection =
          endpoint_->connection_with(there, context.deadline, context.check);
      const EndpointLock lock(endpoint_->mutex());
      peer_of(peer).context_id = there.context_id;
      peer_of(peer).connection = std::move(connection);
      if (peer_of(peer).connection->is_lost()) throw DistNetworkError("it was lost at once");
      if (context.on_connection) context.on_connection(peer, peer_of(peer).connection->socket());
    } catch (const DistNetworkError& e) {
      if (e.context().peer >= 0) throw;
      throw DistNetworkError(e.reason(), {.peer = peer});
    }
  }
}

TcpTransport::~TcpTransport() { leave("the group was destroyed"); }

void TcpTransport::leave(const std::string& reason) noexcept {
  give_up(reason, -1);
  EndpointLock lock(endpoint_->mutex());
  await_goodbye_acks(lock, deadline_after(farewell_limit));
  endpoint_->remove(context_id_);
}

Frame TcpTransport::frame_to(const Peer& peer, Frame::Kind kind, std::uint64_t number) const {
  return {.kind = kind,
          .context_id = peer.context_id,
          .rank = static_cast<std::uint32_t>(rank_),
          .number = number,
          .answer_to = context_id_,
          .to_rank = static_cast<std::uint32_t>(&peer - peers_.data())};
}

// --- Messages
// ------------------------------------------------------------------------------------------------

std::unique_ptr<Transfer> TcpTransport::post_send(int peer, std::uint64_t slot,
                                                  std::span<const std::byte> bytes) {
  if (peer == rank_) return to_self_.post_send(peer, peer, slot, bytes);
  EndpointLock lock(endpoint_->mutex());
  throw_if_ended(lock);
  Peer& there = peer_of(peer);
  if (there.left) throw_left(peer);
  const auto message = std::make_shared<Outgoing>();
  message->head = frame_to(there, Frame::data, slot);
  message->memory = bytes.empty() ? &no_bytes : bytes.data();
  message->size = bytes.size();
  const std::shared_ptr<Connection> connection = there.connection;
  if (there.slots.post_send(slot, message)) {
    connection->send(lock, message);
  } else if (there.wanted.contains(slot)) {
    connection->send(lock, frame_to(there, Frame::offer, slot));
  }
  lock.unlock();
  return std::make_unique<SentMessage>(*this, peer, message);
}

std::unique_ptr<Transfer> TcpTransport::post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) {
  if (peer == rank_) return to_self_.post_recv(peer, peer, slot, bytes);
  EndpointLock lock(endpoint_->mutex());
  throw_if_ended(lock);
  Peer& there = peer_of(peer);
  if (there.left) throw_left(peer);
  const auto message = std::make_shared<Incoming>();
  message->memory = bytes.empty() ? &no_bytes : bytes.data();
  message->size = bytes.size();
  there.slots.post_receive(slot, message);
  there.connection->send(lock, frame_to(there, Frame::ready, slot));
  lock.unlock();
  return std::make_unique<ReceivedMessage>(*this, peer, message);
}

std::unique_ptr<AnySourceReceive> TcpTransport::post_recv_any(std::uint64_t slot,
                                                              std::span<std::byte> bytes) {
  EndpointLock lock(endpoint_->mutex());
  throw_if_ended(lock);
  auto any_receive = std::make_unique<AnySourceMessage>(*this, slot, bytes);
  any_slot(lock, slot).open = any_receive.get();
  const std::optional<int> sender = accept_offer(slot);
  if (sender) {
    const Peer& peer = peer_of(*sender);
    peer.connection->send(lock, frame_to(peer, Frame::ready, slot));
  }
  lock.unlock();
  return any_receive;
}

void TcpTransport::on_unexpected_message(std::uint64_t slot, std::function<void()> come) {
  EndpointLock lock(endpoint_->mutex());
  AnySlot& here = any_slot(lock, slot);
  if (come && !here.offers.empty()) return come();
  here.come = std::move(come);
}

// At the first time, asks the others to offer their messages.
TcpTransport::AnySlot& TcpTransport::any_slot(EndpointLock& lock, std::uint64_t slot) {
  const auto [here, is_first] = any_slots_.try_emplace(slot);
  for (int rank = 0; is_first && rank < size_; ++rank) {
    const Peer& peer = peer_of(rank);
    if (rank != rank_) peer.connection->send(lock, frame_to(peer, Frame::wants, slot));
  }
  return here->second;
}

// Takes the oldest offer, if the slot has one: the receive from that rank is posted.
std::optional<int> TcpTransport::accept_offer(std::uint64_t slot) {
  AnySlot& here = any_slots_[slot];
  if (here.open == nullptr || !here.open->is_free() || here.offers.empty()) return std::nullopt;
  const int sender = here.offers.front();
  here.offers.pop_front();
  peer_of(sender).slots.post_receive(slot, here.open->choose(sender));
  return sender;
}

// The program owns the memory again.
void TcpTransport::reclaim(Incoming& message) {
  EndpointLock lock(endpoint_->mutex());
  if (message.done) return;
  message.memory = nullptr;
  if (message.is_written) endpoint_->await_memory(lock, message.is_written);
}

EagerChannel& TcpTransport::eager_channel() { return *eager_channel_; }

// --- What comes in, on the endpoint's thread
// -------------------------------------------------------------------

TcpTransport::Peer* TcpTransport::sender_of(const Connection& connection, const Frame& frame) {
  if (frame.rank >= peers_.size() || frame.rank == static_cast<std::uint32_t>(rank_)) return nullptr;
  Peer& peer = peers_[frame.rank];
  return peer.connection && peer.connection.get() != &connection ? nullptr : &peer;
}

void TcpTransport::on_frame(Connection& connection, const Frame& frame, std::span<const std::byte> bytes) {
  Peer* const peer = sender_of(connection, frame);
  if (peer == nullptr) return;
  const int rank = static_cast<int>(frame.rank);
  switch (frame.kind) {
    case Frame::wants:
      peer->wanted.insert(frame.number);
      for (std::size_t i = peer->slots.waiting_sends(frame.number); i > 0; --i)
        connection.queue(frame_to(*peer, Frame::offer, frame.number));
      return;
    case Frame::offer:
      any_slots_[frame.number].offers.push_back(rank);
      if (const std::function<void()> come = std::exchange(any_slots_[frame.number].come, nullptr)) come();
      if (const std::optional<int> sender = accept_offer(frame.number))
        peer_of(*sender).connection->queue(frame_to(peer_of(*sender), Frame::ready, frame.number));
      return;
    case Frame::ready:
      if (const std::shared_ptr<Outgoing> message = peer->slots.ready(frame.number))
        connection.queue(message);
      return;
    case Frame::done:
      return end_message(*peer, frame);
    case Frame::dropped:
      peer->slots.end_receive(frame.number);
      return;
    case Frame::eager:
      return take_eager(*peer, rank, bytes);
    case Frame::credit:
      peer->eager_send_limit += TcpEagerChannel::released_at_once;
      return eager_channel_->wake();
    case Frame::goodbye:
      return take_goodbye(rank, bytes);
    case Frame::goodbye_ack:
      peer->goodbye_acknowledged = true;
      return changed_.wake();
    case Frame::gone:
      return peer->left ? void() : end("it is no longer in the group", rank);
    case Frame::progress_query: {
      Frame answer = frame_to(*peer, Frame::progress_reply, entered_.load(std::memory_order_relaxed));
      answer.context_id = frame.answer_to;
      return connection.queue(answer);
    }
    case Frame::progress_reply:
      peer->answer = frame.number;
      return changed_.wake();
    default:
      return;
  }
}

std::shared_ptr<Incoming> TcpTransport::find_receive(Connection& connection, const Frame& frame) {
  Peer* const peer = sender_of(connection, frame);
  if (peer == nullptr) return nullptr;
  std::shared_ptr<Incoming> message = peer->slots.receiving(frame.number);
  if (!message || message->received + frame.length <= message->size) return message;
  end("it sent a message that is longer than the receive's memory", static_cast<int>(frame.rank));
  return nullptr;
}

void TcpTransport::end_message(Peer& peer, const Frame& frame) {
  const std::shared_ptr<Incoming> message = peer.slots.end_receive(frame.number);
  if (!message || message->memory == nullptr) return;
  message->done = true;
  message->wakeup.wake();
  const auto any = any_slots_.find(frame.number);
  if (any != any_slots_.end() && any->second.open != nullptr) any->second.open->wake_if_done();
}

void TcpTransport::take_eager(Peer& peer, int rank, std::span<const std::byte> bytes) {
  EagerReceiveBuffer& line = peer.eager_received;
  if (line.arrived - line.released == static_cast<std::uint64_t>(EagerChannel::max_unreceived))
    return end("it sent more messages than it may", rank);
  std::memcpy(TcpEagerChannel::next_cell(line), bytes.data(), bytes.size());
  eager_channel_->wake();
}

void TcpTransport::take_goodbye(int rank, std::span<const std::byte> bytes) {
  Peer& peer = peer_of(rank);
  GoodbyeMessage words;
  if (bytes.size() != sizeof words || peer.left) return;
  std::memcpy(&words, bytes.data(), sizeof words);
  if (words.kind != GoodbyeMessage::left) {
    const bool names_another =
        words.blamed >= 0 && words.blamed < size_ && words.blamed != rank && words.blamed != rank_;
    return names_another ? end(words.reason(), words.blamed) : end(words.describe(), rank);
  }
  // The rank had completed its part in every operation that was started. Only ranks that still need something
  // from it fail.
  peer.left = true;
  peer.why_left = words.reason();
  left_.push_back(rank);
  for (auto& [slot, any] : any_slots_) {
    std::erase(any.offers, rank);
    if (const std::optional<int> sender = accept_offer(slot))
      peer_of(*sender).connection->queue(frame_to(peer_of(*sender), Frame::ready, slot));
  }
  wake_all();
}

void TcpTransport::on_connection_lost(Connection& connection, const std::string& why) {
  for (int rank = 0; rank < size_; ++rank) {
    Peer& peer = peer_of(rank);
    if (peer.connection.get() != &connection) continue;
    peer.lost = true;
    if (!peer.left) end(why, rank);
  }
  wake_all();
}

// --- The end
// -------------------------------------------------------------------------------------------------

// Every wait returns, and throws this reason or an earlier one.
void TcpTransport::end(const std::string& reason, int blamed) {
  if (ended_) return;
  ended_ = reason;
  blamed_ = blamed;
  wake_all();
  to_self_.abort(rank_, reason, blamed);
}

void TcpTransport::wake_all() {
  if (shared_memory_) shared_memory_->interrupt();
  if (message_rings_) message_rings_->interrupt();
  for (Wakeup* const wakeup : waiting_) wakeup->wake();
}

// The others get the reason before this rank's program can end because of it: they might take this rank for
// the one that failed first.
void TcpTransport::throw_if_ended(EndpointLock& lock) {
  if (!ended_) return;
  send_reason(lock);
  throw DistNetworkError(*ended_, {.peer = blamed_});
}

void TcpTransport::throw_left(int rank) {
  throw DistNetworkError(left_the_group + peer_of(rank).why_left, {.peer = rank});
}

void TcpTransport::give_up(const std::string& reason, int blamed) noexcept {
  EndpointLock lock(endpoint_->mutex());
  end(reason, blamed);
  send_reason(lock);
}

// Why the transport ended: the first reason.
void TcpTransport::send_reason(EndpointLock& lock) {
  if (!std::exchange(has_left_, true)) send_goodbye(lock, GoodbyeMessage::giving_up(*ended_, blamed_));
}

void TcpTransport::shutdown(Deadline deadline) noexcept {
  EndpointLock lock(endpoint_->mutex());
  if (ended_) {
    send_reason(lock);
  } else if (!std::exchange(has_left_, true)) {
    send_goodbye(lock, GoodbyeMessage::leaving(std::uncaught_exceptions() > 0 ? in_exception : ""));
  }
  await_goodbye_acks(lock, deadline);
}

// Waits for nobody.
void TcpTransport::send_goodbye(EndpointLock& lock, const GoodbyeMessage& words) {
  for (Peer& peer : peers_) {
    if (!peer.connection || peer.lost) continue;
    Frame frame = frame_to(peer, Frame::goodbye, 0);
    frame.length = sizeof words;
    peer.goodbye_sent = true;
    peer.connection->send(lock, frame, std::as_bytes(std::span(&words, 1)));
    peer.connection->write_at_once(lock);  // this process may end soon
  }
}

void TcpTransport::await_goodbye_acks(EndpointLock& lock, Deadline deadline) {
  const auto all_have = [this] {
    return std::ranges::all_of(peers_, [](const Peer& peer) {
      return !peer.goodbye_sent || peer.goodbye_acknowledged || peer.lost;
    });
  };
  waiting_.push_back(&changed_);
  {
    const Endpoint::ActiveWait missed(*endpoint_);
    changed_.wait(lock, deadline, all_have);
  }
  std::erase(waiting_, &changed_);
}

void TcpTransport::check() {
  EndpointLock lock(endpoint_->mutex());
  throw_if_ended(lock);
}

std::vector<int> TcpTransport::departed() {
  const EndpointLock lock(endpoint_->mutex());
  return left_;
}

Transport::ProgressReport TcpTransport::query_progress(std::uint64_t number) {
  ProgressReport progress;
  EndpointLock lock(endpoint_->mutex());
  if (std::exchange(progress_queried_, true)) return progress;
  std::vector<int> peers;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !peer_of(rank).left && !peer_of(rank).lost) peers.push_back(rank);
  }
  for (const int rank : peers) {
    const Peer& peer = peer_of(rank);
    peer.connection->send(lock, frame_to(peer, Frame::progress_query, 0));
  }
  const auto has_answered = [this](int rank) { return peer_of(rank).answer || peer_of(rank).left; };
  const Wait wait(*this, lock, changed_, deadline_after(progress_query_limit),
                  [&] { return std::ranges::all_of(peers, has_answered); });
  throw_if_ended(lock);
  std::vector<RankProgress> others;
  for (const int rank : peers) {
    if (const std::optional<std::uint64_t>& answer = peer_of(rank).answer) others.push_back({rank, *answer});
    if (!has_answered(rank)) progress.unresponsive.push_back(rank);
  }
  progress.stragglers = stragglers(others, number);
  return progress;
}

}  // namespace dlaunch::internal
