#include "runtime/point_to_point/memory_protocol.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/point_to_point/envelope.h"
#include "runtime/point_to_point/message_errors.h"
#include "runtime/shared_memory/copy.h"
#include "store/base/random.h"

namespace dlaunch::internal {

namespace {

[[noreturn]] void throw_damaged(int from) { throw DistNetworkError(damaged_memory, {.peer = from}); }

Envelope envelope_of(const shared::RingRecord& record, Envelope::Kind kind, int from) {
  if (record.dtype > static_cast<std::uint64_t>(last_dtype)) throw_damaged(from);
  return {.kind = kind,
          .tag = record.tag,
          .dtype = static_cast<DType>(record.dtype),
          .count = record.count,
          .number = record.number};
}

}  // namespace

void MemoryProtocol::Ending::end() const {
  if (error) {
    source.fail(error);
  } else if (from >= 0) {
    source.succeed_from(from);
  } else {
    source.succeed();
  }
}

MemoryProtocol::MemoryProtocol(Transport& transport, MessageRings& rings)
    : transport_(transport),
      rings_(rings),
      rank_(transport.rank()),
      token_(random_u64() | 1U),
      peers_(static_cast<std::size_t>(transport.size())),
      interrupts_(rings.interrupts() - 1) {}  // ranks may have left before the rings were there

// --- What the program asks for
// --------------------------------------------------------------------------------

bool MemoryProtocol::send_at_once(const Tensor& tensor, int to, Tag tag, Outcome& outcome) {
  throw_if_ended();
  Peer& peer = peer_of(to);
  if (peer.left) end_for_departed(to);
  if (to == rank_) {
    const Envelope envelope{.tag = tag, .dtype = tensor.dtype(), .count = tensor.numel()};
    const std::span<const std::byte> bytes = tensor.bytes();
    if (const auto receive = matching_.take_receive(to, tag)) {
      deliver(*receive, envelope, to, bytes, outcome);
    } else {
      matching_.keep({to, envelope, {bytes.begin(), bytes.end()}});
    }
    return true;
  }
  if (tensor.nbytes() > rings_.most_content() || peer.credits == 0 || !peer.queue.empty()) return false;
  const shared::RingRecord record{.kind = static_cast<std::uint32_t>(Kind::eager),
                                  .tag = tag,
                                  .dtype = static_cast<std::uint64_t>(tensor.dtype()),
                                  .count = tensor.numel()};
  if (!rings_.put(static_cast<std::size_t>(to), record, tensor.bytes())) return false;
  --peer.credits;
  rings_.notify(static_cast<std::size_t>(to));
  return true;
}

void MemoryProtocol::send_rts(const Sending& message) {
  const std::span<const std::byte> bytes = message.tensor.bytes();
  LentMemory lent{.process = ProcessMemory::own(token_)};
  if (rings_.may_lend() && is_readable_directly(bytes.data(), bytes.size()))
    lent.address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(bytes.data()));
  ++last_number_;
  put(message.to,
      {.kind = static_cast<std::uint32_t>(Kind::rts),
       .tag = message.tag,
       .dtype = static_cast<std::uint64_t>(message.tensor.dtype()),
       .count = message.tensor.numel(),
       .number = last_number_},
      std::as_bytes(std::span(&lent, 1)));
  outgoing_.add({message.to, last_number_}, message.deadline, message);
  notify(message.to);
}

void MemoryProtocol::receive(const PostedReceive& receive, Outcome& outcome) {
  throw_if_ended();
  if (matching_.has_message(receive.from, receive.tag)) {
    if (!receive.take()) return;
    const std::optional<ArrivedMessage> message = matching_.take_message(receive.from, receive.tag);
    deliver(receive, message->envelope, message->from, message->content, outcome);
    if (message->on_credit) return_credit(message->from);
    notify(message->from);
  } else if (receive.from >= 0 && peer_of(receive.from).left) {
    end_for_departed(receive.from);
  } else if (receive.from < 0 && all_peers_left()) {
    if (!receive.shared || receive.shared->all_have_left()) throw DistNetworkError(all_have_left);
  } else {
    matching_.post(receive);
  }
}

bool MemoryProtocol::receive_next(const Tensor& tensor, int from, Tag tag) {
  if (ended_ || matching_.has_receives() || matching_.has_messages()) return false;
  const auto ring = static_cast<std::size_t>(from);
  const std::optional<MessageRings::Arrived> arrived = rings_.front(ring);
  if (!arrived || arrived->record.kind != static_cast<std::uint32_t>(Kind::eager) ||
      arrived->record.tag != tag || arrived->record.dtype != static_cast<std::uint64_t>(tensor.dtype()) ||
      arrived->record.count != tensor.numel() || arrived->content.size() != tensor.nbytes())
    return false;
  copy(tensor.bytes().data(), arrived->content);
  return_credit(from);
  rings_.pop(ring);
  rings_.notify(ring);
  return true;
}

// --- What arrives
// ---------------------------------------------------------------------------------------------

void MemoryProtocol::progress(Outcome& outcome) {
  if (ended_) return;
  try {
    take_departures(outcome);
    for (const int from : rings_.members()) {
      if (from == rank_) continue;
      receive_some(from, rings_.ring_size(), outcome);
      send_waiting(from, outcome);
      notify(from);
    }
    matching_.drop_taken();
    expire(outcome);
  } catch (...) {
    end(std::current_exception(), outcome);
  }
}

// Not more, so that a rank that sends without end does not keep this one from the others.
void MemoryProtocol::receive_some(int from, std::size_t most, Outcome& outcome) {
  const auto ring = static_cast<std::size_t>(from);
  for (std::size_t bytes = 0; bytes < most;) {
    const auto arrived = rings_.front(ring);
    if (!arrived) return;
    handle(from, *arrived, outcome);
    bytes += sizeof arrived->record + arrived->content.size();
    rings_.pop(ring);
    peer_of(from).to_notify = true;
  }
}

// What the transport knows of the other ranks. A rank's messages come before its departure.
void MemoryProtocol::take_departures(Outcome& outcome) {
  const std::uint32_t interrupts = rings_.interrupts();
  if (interrupts == interrupts_) return;
  interrupts_ = interrupts;
  for (const int from : transport_.departed()) {
    if (!rings_.is_member(from)) continue;
    receive_some(from, std::numeric_limits<std::size_t>::max(), outcome);
    on_peer_left(from, outcome);
  }
  transport_.check();
}

void MemoryProtocol::handle(int from, const MessageRings::Arrived& arrived, Outcome& outcome) {
  const shared::RingRecord& record = arrived.record;
  switch (static_cast<Kind>(record.kind)) {
    case Kind::eager:
      return handle_eager(from, arrived, outcome);
    case Kind::rts:
      return handle_rts(from, arrived, outcome);
    case Kind::fin:
      if (const auto message = outgoing_.take({from, record.number}))
        outcome.endings.push_back({message->source});
      return;
    case Kind::cts:
      if (outgoing_.find({from, record.number})) peer_of(from).streams.push_back({record.number});
      return;
    case Kind::data:
      return handle_data(from, arrived, outcome);
    case Kind::credit:
      int& credits = peer_of(from).credits;
      credits += static_cast<int>(std::min(record.count, std::uint64_t{credits_at_start}));
      credits = std::min(credits, credits_at_start);
      return;
  }
  throw_damaged(from);
}

void MemoryProtocol::handle_eager(int from, const MessageRings::Arrived& arrived, Outcome& outcome) {
  const Envelope envelope = envelope_of(arrived.record, Envelope::Kind::eager, from);
  if (envelope.count != arrived.content.size() / size_of(envelope.dtype) ||
      envelope.payload() != arrived.content.size())
    throw_damaged(from);
  if (const auto receive = matching_.take_receive(from, envelope.tag)) {
    deliver(*receive, envelope, from, arrived.content, outcome);
    return_credit(from);
  } else {
    matching_.keep({from, envelope, {arrived.content.begin(), arrived.content.end()}, true});
  }
}

void MemoryProtocol::handle_rts(int from, const MessageRings::Arrived& arrived, Outcome& outcome) {
  if (arrived.content.size() != sizeof(LentMemory)) throw_damaged(from);
  const Envelope envelope = envelope_of(arrived.record, Envelope::Kind::rts, from);
  if (const auto receive = matching_.take_receive(from, envelope.tag)) {
    deliver(*receive, envelope, from, arrived.content, outcome);
  } else {
    matching_.keep({from, envelope, {arrived.content.begin(), arrived.content.end()}});
  }
}

// `content`: the message's, or the LentMemory.
void MemoryProtocol::deliver(const PostedReceive& receive, const Envelope& envelope, int from,
                             std::span<const std::byte> content, Outcome& outcome) {
  if (envelope.dtype != receive.tensor.dtype() || envelope.count != receive.tensor.numel()) {
    const std::string reason = "it sends " + describe(envelope.dtype, envelope.count) + " with " +
                               describe(envelope.tag) + ", this rank receives " +
                               describe(receive.tensor.dtype(), receive.tensor.numel());
    return outcome.endings.push_back({receive.source, -1, network_error(reason, from)});
  }
  if (envelope.kind == Envelope::Kind::eager) {
    copy(receive.tensor.bytes().data(), content);
    return outcome.endings.push_back({receive.source, from});
  }
  LentMemory lent;
  std::memcpy(&lent, content.data(), sizeof lent);
  if (lent.address == 0) return send_cts(receive, from, envelope.number, outcome);
  ++reading_;
  outcome.reads.push_back({receive, from, envelope.number, lent.process, lent.address});
}

bool MemoryProtocol::make(const DirectRead& read) const {
  const std::span<std::byte> to = read.receive.tensor.bytes();
  return read_directly(read.process, read.address, to.data(), to.size()) &&
         !rings_.has_withdrawn(static_cast<std::size_t>(read.from));
}

void MemoryProtocol::end_read(const DirectRead& read, bool is_read, Outcome& outcome) {
  --reading_;
  if (ended_) return outcome.endings.push_back({read.receive.source, -1, ended_});
  try {
    if (is_read) {
      put(read.from, {.kind = static_cast<std::uint32_t>(Kind::fin), .number = read.number});
      outcome.endings.push_back({read.receive.source, read.from});
    } else {
      send_cts(read.receive, read.from, read.number, outcome);
    }
    notify(read.from);
  } catch (...) {
    outcome.endings.push_back({read.receive.source, -1, std::current_exception()});
    end(std::current_exception(), outcome);
  }
}

// The content comes in pieces.
void MemoryProtocol::send_cts(const PostedReceive& receive, int from, std::uint64_t number,
                              Outcome& outcome) {
  if (peer_of(from).left) {
    transport_.abort_for(from, left_the_group);
    return outcome.endings.push_back({receive.source, -1, network_error(left_the_group, from)});
  }
  incoming_.add({from, number}, receive.deadline, {receive, from});
  put(from, {.kind = static_cast<std::uint32_t>(Kind::cts), .number = number});
}

// `count` of a piece: its offset in bytes.
void MemoryProtocol::handle_data(int from, const MessageRings::Arrived& arrived, Outcome& outcome) {
  const Incoming* const incoming = incoming_.find({from, arrived.record.number});
  if (!incoming) return;  // too late
  const Tensor& tensor = incoming->receive.tensor;
  const std::uint64_t offset = arrived.record.count;
  if (offset > tensor.nbytes() || arrived.content.size() > tensor.nbytes() - offset) throw_damaged(from);
  copy(tensor.bytes().data() + offset, arrived.content);
  if (offset + arrived.content.size() < tensor.nbytes()) return;
  outcome.endings.push_back({incoming->receive.source, from});
  (void)incoming_.take({from, arrived.record.number});
}

// --- What is sent
// ---------------------------------------------------------------------------------------------

void MemoryProtocol::put(int to, const shared::RingRecord& record, std::span<const std::byte> content) {
  Peer& peer = peer_of(to);
  if (peer.left) return;
  if (peer.queue.empty() && rings_.put(static_cast<std::size_t>(to), record, content)) {
    peer.to_notify = true;
  } else {
    peer.queue.push_back({record, {content.begin(), content.end()}});
  }
}

void MemoryProtocol::send_waiting(int to, Outcome& outcome) {
  Peer& peer = peer_of(to);
  for (; !peer.queue.empty(); peer.queue.pop_front()) {
    const Queued& next = peer.queue.front();
    if (!rings_.put(static_cast<std::size_t>(to), next.record, next.content)) return;
    peer.to_notify = true;
  }
  for (; !peer.streams.empty(); peer.streams.pop_front()) {
    if (!send_piece(to, peer.streams.front(), outcome)) return;
  }
}

// Sends as much as fits. Returns whether the whole message is sent, or no rank waits for it any more.
bool MemoryProtocol::send_piece(int to, Stream& stream, Outcome& outcome) {
  const Sending* const message = outgoing_.find({to, stream.number});
  if (!message) return true;
  const std::span<const std::byte> bytes = message->tensor.bytes();
  do {
    const auto piece =
        bytes.subspan(stream.sent, std::min(rings_.most_content(), bytes.size() - stream.sent));
    const shared::RingRecord record{
        .kind = static_cast<std::uint32_t>(Kind::data), .count = stream.sent, .number = stream.number};
    if (!rings_.put(static_cast<std::size_t>(to), record, piece)) return false;
    stream.sent += piece.size();
    peer_of(to).to_notify = true;
  } while (stream.sent < bytes.size());
  outcome.endings.push_back({message->source});
  (void)outgoing_.take({to, stream.number});
  return true;
}

void MemoryProtocol::return_credit(int peer) {
  Peer& sender = peer_of(peer);
  if (++sender.taken < credits_at_start / 2) return;
  const int count = std::exchange(sender.taken, 0);
  put(peer, {.kind = static_cast<std::uint32_t>(Kind::credit), .count = static_cast<std::uint64_t>(count)});
}

// Wakes the peer if records were put for it, or removed.
void MemoryProtocol::notify(int peer) {
  if (std::exchange(peer_of(peer).to_notify, false)) rings_.notify(static_cast<std::size_t>(peer));
}

bool MemoryProtocol::has_waiting() const {
  return std::ranges::any_of(peers_,
                             [](const Peer& peer) { return !peer.queue.empty() || !peer.streams.empty(); });
}

// --- Ends
// -----------------------------------------------------------------------------------------------------

bool MemoryProtocol::all_peers_left() const {
  return rings_.members().size() > 1 && std::ranges::all_of(rings_.members(), [this](int rank) {
           return rank == rank_ || peers_[static_cast<std::size_t>(rank)].left;
         });
}

// A call that needs a peer that has left ends the group; the error names that peer on all ranks.
void MemoryProtocol::end_for_departed(int peer) {
  transport_.abort_for(peer, left_the_group);
  throw DistNetworkError(left_the_group, {.peer = peer});
}

// The peer has left in order: all its messages are here, and no more will come.
void MemoryProtocol::on_peer_left(int peer, Outcome& outcome) {
  if (std::exchange(peer_of(peer).left, true)) return;
  drop_waiting(peer);
  withdraw();
  std::vector<WorkSource> sources;
  for (const PostedReceive& receive : matching_.take_receives_from(peer)) sources.push_back(receive.source);
  for (const Incoming& incoming : incoming_.take_all(peer)) sources.push_back(incoming.receive.source);
  for (const Sending& message : outgoing_.take_all(peer)) sources.push_back(message.source);
  if (!sources.empty()) transport_.abort_for(peer, left_the_group);
  for (const WorkSource& source : sources)
    outcome.endings.push_back({source, -1, network_error(left_the_group, peer)});
  if (!all_peers_left()) return;
  for (const PostedReceive& receive : matching_.take_receives_from_nobody())
    outcome.endings.push_back({receive.source, -1, network_error(all_have_left, -1)});
}

Deadline MemoryProtocol::next_deadline() const {
  return std::min({matching_.next_deadline(), outgoing_.next_deadline(), incoming_.next_deadline()});
}

void MemoryProtocol::expire(Outcome& outcome) {
  const Deadline next = next_deadline();
  if (next == Deadline::max() || !has_passed(next)) return;
  const Deadline now = std::chrono::steady_clock::now();
  for (const PostedReceive& receive : matching_.take_expired(now)) {
    const std::string whose = receive.from < 0 ? "any rank" : "it";
    give_up(receive.from,
            "no message with " + describe(receive.tag) + " from " + whose + " before the deadline",
            receive.source, outcome);
  }
  while (const std::optional<Incoming> incoming = incoming_.take_expired(now)) {
    outcome.endings.push_back(
        {incoming->receive.source, -1, std::make_exception_ptr(late_error(incoming->from, false))});
  }
  while (const std::optional<Sending> message = outgoing_.take_expired(now)) {
    rings_.withdraw();
    give_up(message->to,
            "it did not receive the message with " + describe(message->tag) + " before the deadline",
            message->source, outcome);
  }
}

// A message missed its deadline; the error names the peer on all ranks.
void MemoryProtocol::give_up(int peer, const std::string& reason, const WorkSource& source,
                             Outcome& outcome) {
  if (peer >= 0) transport_.abort_for(peer, "rank " + std::to_string(rank_) + " gave up: " + reason);
  outcome.endings.push_back({source, -1, network_error(reason, peer)});
}

void MemoryProtocol::end(const std::exception_ptr& error, Outcome& outcome) {
  if (!ended_) ended_ = error;
  withdraw();
  const auto fail = [&](const WorkSource& source) { outcome.endings.push_back({source, -1, ended_}); };
  for (const PostedReceive& receive : matching_.take_all_receives()) fail(receive.source);
  for (const Incoming& incoming : incoming_.take_all(std::nullopt)) fail(incoming.receive.source);
  for (const Sending& message : outgoing_.take_all(std::nullopt)) fail(message.source);
  for (const int peer : rings_.members()) drop_waiting(peer);
}

void MemoryProtocol::drop_waiting(int peer) {
  peer_of(peer).queue.clear();
  peer_of(peer).streams.clear();
  rings_.forget_room(static_cast<std::size_t>(peer));
}

void MemoryProtocol::withdraw() {
  if (!outgoing_.is_empty()) rings_.withdraw();
}

}  // namespace dlaunch::internal
