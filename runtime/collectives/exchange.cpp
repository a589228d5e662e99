#include "runtime/collectives/exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"

namespace dlaunch::internal {

namespace {

// Slots of long messages, below the 2^63 that belong to the caller of a transport. Slots of point-to-point
// messages lack this bit.
constexpr std::uint64_t long_flag = std::uint64_t{1} << 62;

// How long a call waits before it polls the peers, the first time and each time after. Rarely, since the
// calls of ranks that are merely late need the processor, too.
constexpr auto first_poll = std::chrono::milliseconds(20);
constexpr auto poll_interval = std::chrono::milliseconds(100);

// With several interfaces, the sender's next call may overtake a message by so many polls, about 5 s. (Polls
// and not time, which passes while this process is stopped.)
constexpr int overtaking_limit = 50;

int index_of(int rank, std::span<const int> members) {
  return members.empty() ? rank : static_cast<int>(std::ranges::find(members, rank) - members.begin());
}

MessageHeader header_in(const std::byte* message) {
  MessageHeader header;
  std::memcpy(&header, message, sizeof header);
  return header;
}

}  // namespace

Exchange::Exchange(const MessageGroup& group, Workspace& workspace, const CollectiveFingerprint& fingerprint,
                   std::uint64_t sequence, Deadline deadline, std::span<const int> members)
    : transport_(group.transport),
      eager_channel_(group.eager_channel),
      workspace_(workspace),
      fingerprint_(fingerprint),
      sequence_(sequence),
      deadline_(deadline),
      members_(members),
      rank_(index_of(group.rank, members)),
      size_(members.empty() ? group.size : static_cast<int>(members.size())),
      peer_states_(static_cast<std::size_t>(group.size)) {}

// --- Waiting ---------------------------------------------------------------------------------------------

// Calls wait(until) again and again until it returns that the message is here, and polls the peers in
// between. `peer`: the sender. False if the call's deadline passes before.
template <class Wait>
bool Exchange::await(int peer, const Wait& wait) {
  if (next_poll_ == Deadline()) next_poll_ = deadline_after(first_poll);
  while (!wait(std::min(deadline_, next_poll_))) {
    if (has_passed(deadline_)) return false;
    poll_peers(peer);
    next_poll_ = deadline_after(poll_interval);
  }
  return true;
}

// Announces this rank's call to the rank that it waits for, and polls what has come from the peers.
void Exchange::poll_peers(int awaited) {
  announce();
  if (awaited != no_peer) {
    std::uint8_t& state = peer_states_[static_cast<std::size_t>(awaited)];
    // The messages sent to it contain the same.
    if ((state & sent_to) == 0 && (state & notified) == 0 &&
        send_header(awaited, MessageHeader::Place::none, 0))
      state |= notified;
  }
  // Also ranks that are no members of this call: in their call they may be.
  for (int peer = 0; peer < transport_.size(); ++peer) {
    if (peer != transport_.rank()) check_fingerprint_of(peer);
  }
}

int Exchange::rank_of(int member) const {
  return members_.empty() ? member : members_[static_cast<std::size_t>(member)];
}

void Exchange::announce() {
  for (PendingAnnouncement& message : pending_announcements_) {
    if (message.length != 0 && send_header(message.peer, MessageHeader::Place::announced, message.length)) {
      message.length = 0;
    }
  }
}

// False if the peer cannot take it now.
bool Exchange::send_header(int peer, MessageHeader::Place place, std::size_t length) {
  if (peer == half_sent_to_) return false;
  try {
    std::byte* const draft = eager_channel_.compose(peer, Deadline::min());
    if (draft == nullptr) return false;
    const MessageHeader header(fingerprint_, sequence_, place, length);
    std::memcpy(draft, &header, sizeof header);
    eager_channel_.send(peer, sizeof header);
  } catch (const DistNetworkError&) {  // it has left, which may be no error; else the next wait throws
  }
  return true;
}

// Throws if a message has come that has this call's number but belongs to another call. A rank may be
// further, and its earlier announcements may still be here.
void Exchange::check_fingerprint_of(int peer) {
  const std::byte* const message = peek(peer);
  if (message == nullptr) return;
  const MessageHeader header = header_in(message);
  if (header.sequence == sequence_ && header.magic == MessageHeader::expected_magic) check_call(peer, header);
}

// A long message from that rank is awaited, its first one: throws if the eager channel shows that it will not
// come. `overtaken`: polls at which it was missing although its sender was further.
void Exchange::check_next_of(int peer, std::size_t expected_length, int& overtaken) {
  const std::byte* const message = peek(peer);
  if (message == nullptr) return;
  const MessageHeader header = header_in(message);
  if (is_earlier(sequence_, header.sequence) && ++overtaken < overtaking_limit) return;
  // Short messages may have come behind the missing long one.
  const bool is_behind = header.sequence == sequence_ && header.place == MessageHeader::Place::later;
  if (is_behind) return check_call(peer, header);
  check(peer, header, expected_length, true);
}

// The next header from that rank that still matters; null if none has come.
const std::byte* Exchange::peek(int peer) {
  for (;;) {
    const std::byte* const message = eager_channel_.receive(peer, Deadline::min());
    if (message == nullptr || !is_old(peer, header_in(message))) return message;
    eager_channel_.release(peer);
  }
}

bool Exchange::is_old(int peer, const MessageHeader& header) const {
  if (header.magic != MessageHeader::expected_magic || is_earlier(sequence_, header.sequence)) return false;
  if (is_earlier(header.sequence, sequence_)) return header.place >= MessageHeader::Place::announced;
  if (header.place == MessageHeader::Place::none) return header.fingerprint() == fingerprint_;
  const bool got_it = (peer_states_[static_cast<std::size_t>(peer)] & got_long) != 0;
  return header.place == MessageHeader::Place::announced && got_it;
}

// --- Sending ---------------------------------------------------------------------------------------------

std::byte* Exchange::compose(int peer) {
  // Mostly there is room, and no need to read the clock.
  std::byte* draft = eager_channel_.compose(peer, Deadline::min());
  if (draft != nullptr) return draft;
  const bool has_room = await(no_peer, [&](Deadline until) {
    draft = eager_channel_.compose(peer, until);
    return draft != nullptr;
  });
  if (!has_room) throw late_error(peer, true);
  return draft;
}

// The header and the message behind it, or its first part if it does not fit.
void Exchange::send_eager(int peer, std::span<const std::byte> message, MessageHeader::Place place) {
  const MessageHeader header(fingerprint_, sequence_, place, message.size());
  const std::span<const std::byte> first = message.first(std::min(message.size(), fragment_limit));
  std::byte* const draft = compose(peer);
  std::memcpy(draft, &header, sizeof header);
  if (!first.empty()) std::memcpy(draft + sizeof header, first.data(), first.size());
  eager_channel_.send(peer, sizeof header + first.size());
  if (first.size() == message.size()) return;
  half_sent_to_ = peer;
  const std::span<const std::byte> second = message.subspan(first.size());
  std::memcpy(compose(peer), second.data(), second.size());
  eager_channel_.send(peer, second.size());
  half_sent_to_ = no_peer;
}

Exchange::Send Exchange::send(int member, std::span<const std::byte> bytes) {
  const int peer = rank_of(member);
  std::uint8_t& state = peer_states_[static_cast<std::size_t>(peer)];
  const bool is_first = (state & sent_to) == 0;
  state |= sent_to;
  Send message;
  message.exchange_ = this;
  if (bytes.size() <= eager_limit) {
    send_eager(peer, bytes, is_first ? MessageHeader::Place::first : MessageHeader::Place::later);
    return message;
  }
  message.long_ = transport_.post_send(peer, long_slot(bytes.size()), bytes);
  if (is_first) {
    message.announcement_ = pending_announcements_.size();
    pending_announcements_.push_back({peer, bytes.size()});
  }
  return message;
}

void Exchange::Send::wait() {
  if (!long_) return;
  // The transport's error explains best why it was not sent.
  if (!exchange_->await(no_peer, [this](Deadline until) { return long_->wait_until(until); })) {
    long_->wait(exchange_->deadline_);
  }
  if (announcement_) exchange_->pending_announcements_[*announcement_].length = 0;
}

// --- Receiving -------------------------------------------------------------------------------------------

Exchange::Receive Exchange::receive(int member, std::span<std::byte> memory) {
  const int peer = rank_of(member);
  std::uint8_t& state = peer_states_[static_cast<std::size_t>(peer)];
  Receive message;
  message.exchange_ = this;
  message.peer_ = peer;
  message.is_first_ = (state & received_from) == 0;
  message.memory_ = memory;
  if (memory.size() > eager_limit) {
    message.long_ = transport_.post_recv(peer, long_slot(memory.size()), memory);
  }
  state |= received_from;
  return message;
}

std::uint64_t Exchange::long_slot(std::size_t length) const {
  return long_flag | (mixed(hash_of(fingerprint_, sequence_), length) & (long_flag - 1));
}

// The next message with a header; it stays in the eager channel.
const std::byte* Exchange::receive_eager(int peer) {
  for (;;) {
    const std::byte* message = nullptr;
    const bool is_here = await(peer, [&](Deadline until) {
      message = eager_channel_.receive(peer, until);
      return message != nullptr;
    });
    if (!is_here) throw late_error(peer, false);
    if (!is_old(peer, header_in(message))) return message;
    eager_channel_.release(peer);
  }
}

void Exchange::Receive::take_eager() {
  held_ = {exchange_->receive_eager(peer_), {&exchange_->eager_channel_, peer_}};
  exchange_->check(peer_, header_in(held_.get()), memory_.size(), is_first_);
}

// Copies both parts into the memory.
void Exchange::Receive::take_second_part() {
  std::memcpy(memory_.data(), held_.get() + sizeof(MessageHeader), fragment_limit);
  held_.reset();
  const std::span<std::byte> second = memory_.subspan(fragment_limit);
  EagerChannel& channel = exchange_->eager_channel_;
  held_ = {channel.receive(peer_, exchange_->deadline_), {&channel, peer_}};
  if (!held_) throw late_error(peer_, false);
  std::memcpy(second.data(), held_.get(), second.size());
  held_.reset();
}

void Exchange::Receive::await_long() {
  Exchange& exchange = *exchange_;
  int overtaken = 0;
  const bool is_here = exchange.await(peer_, [&](Deadline until) {
    if (long_->wait_until(until)) return true;
    if (is_first_) exchange.check_next_of(peer_, memory_.size(), overtaken);
    return false;
  });
  if (!is_here) long_->wait(exchange.deadline_);
  if (!is_first_) return;
  exchange.peer_states_[static_cast<std::size_t>(peer_)] |= got_long;
  exchange.peek(peer_);  // its announcement may be here now
}

std::span<const std::byte> Exchange::Receive::wait() {
  if (long_) {
    await_long();
    return memory_;
  }
  take_eager();
  if (memory_.size() <= fragment_limit) return {held_.get() + sizeof(MessageHeader), memory_.size()};
  take_second_part();
  return memory_;
}

void Exchange::Receive::wait_in_place() {
  const std::span<const std::byte> bytes = wait();
  if (bytes.data() != memory_.data() && !bytes.empty())
    std::memcpy(memory_.data(), bytes.data(), bytes.size());
  held_.reset();
}

void wait_for_all(std::span<Exchange::Send> messages) {
  for (std::size_t i = messages.size(); i > 0; --i) messages[i - 1].wait();
}

void wait_for_all(std::span<Exchange::Receive> messages) {
  for (std::size_t i = messages.size(); i > 0; --i) messages[i - 1].wait_in_place();
}

// --- What a header must say ------------------------------------------------------------------------------

void Exchange::check(int peer, const MessageHeader& header, std::size_t expected_length,
                     bool is_first) const {
  if (header.magic != MessageHeader::expected_magic) {
    throw DistNetworkError("it runs another version of libdlaunch", {.peer = peer});
  }
  check_call(peer, header);
  if (header.sequence != sequence_) {
    throw DistNetworkError("the ranks are not at the same call: " + to_string(fingerprint_) + " is number " +
                               std::to_string(sequence_of(header.sequence)) + " of rank " +
                               std::to_string(peer) + " and number " +
                               std::to_string(sequence_of(sequence_)) + " of this rank",
                           {.peer = peer});
  }
  // In an all_to_all two ranks agree on their sizes; in all other calls the sizes follow from the call.
  const bool is_first_of_peer = header.place != MessageHeader::Place::later;
  if (header.length != expected_length || is_first_of_peer != is_first) {
    const std::size_t element = size_of(fingerprint_.dtype);
    throw DistNetworkError("in " + to_string(fingerprint_) + " rank " + std::to_string(peer) + " sends " +
                               std::to_string(header.length / element) +
                               " elements to this rank, which expects " +
                               std::to_string(expected_length / element),
                           {.peer = peer});
  }
}

void Exchange::check_call(int peer, const MessageHeader& header) const {
  const CollectiveFingerprint theirs = header.fingerprint();
  if (theirs == fingerprint_) return;
  throw DistNetworkError(describe_difference(peer, theirs, fingerprint_), {.peer = peer});
}

}  // namespace dlaunch::internal
