#include "runtime/point_to_point/messenger.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/point_to_point/message_errors.h"
#include "runtime/shared_memory/host_map.h"

namespace dlaunch::internal {

Messenger::Messenger(Transport& transport)
    : transport_(transport), rank_(transport.rank()), peers_(static_cast<std::size_t>(transport.size())) {
  start_on_envelope();
}

// Groups without messages have no thread for them.
void Messenger::start_on_envelope() {
  transport_.on_unexpected_message(envelope_slot, [this] {
    try {
      thread_.start();
    } catch (const std::exception& e) {  // this is the transport's thread
      log(LogLevel::warning,
          std::string("messages that have arrived wait for the next send or recv: ") + e.what());
    }
  });
}

Messenger::~Messenger() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (any_receive_) any_receive_->wake();
  }
  thread_.join();
  transport_.on_unexpected_message(envelope_slot, {});  // the thread's last act may have been to ask for it
  fail_all(std::make_exception_ptr(DistError(group_was_destroyed)));
}

Work Messenger::send(const Tensor& tensor, int dst, Tag tag, Deadline deadline) {
  const ThreadOnDemand::Use use(thread_);
  Actions actions;
  const WorkSource source;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) std::rethrow_exception(ended_);
    Envelope envelope{.tag = tag, .dtype = tensor.dtype(), .count = tensor.numel()};
    Peer& peer = peers_[static_cast<std::size_t>(dst)];
    if (peer.left) end_for_departed(dst);
    if (dst == rank_) {
      const std::span<const std::byte> bytes = tensor.bytes();
      arrive({dst, envelope, {bytes.begin(), bytes.end()}}, actions);
      // It may have been what the thread awaited, until that receive's deadline.
      if (!awaits_blocks()) wake_if_before(deadline_after(idle_limit));
      actions.emplace_back([source] { source.succeed(); });
    } else if (tensor.nbytes() <= short_message && peer.credits > 0) {
      --peer.credits;
      peer.outbox.add(envelope, tensor.bytes());
      actions.emplace_back([source] { source.succeed(); });
    } else {
      envelope.kind = Envelope::Kind::rts;
      envelope.number = ++last_number_;
      peer.outbox.add(envelope);
      outgoing_.add({dst, envelope.number}, deadline, {tensor, dst, tag, deadline, source});
      wake_if_before(deadline);
    }
    if (dst != rank_) post_envelopes(dst, actions);
    if (peer.unreachable) {
      (void)outgoing_.take({dst, envelope.number});
      // As in end_for_departed(): while there is no thread, nothing records that a rank leaves.
      if (has_departed(dst)) transport_.abort_for(dst, left_the_group);
      std::rethrow_exception(peer.unreachable);
    }
  }
  for (const auto& action : actions) action();
  return source.work();
}

Work Messenger::recv(const Tensor& tensor, int src, Tag tag, Deadline deadline) {
  const WorkSource source;
  post({tensor, src, tag, deadline, source});
  return source.work();
}

void Messenger::post(PostedReceive receive) {
  const ThreadOnDemand::Use use(thread_);
  Actions actions;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) std::rethrow_exception(ended_);
    const int src = receive.from;
    if (matching_.has_message(src, receive.tag)) {
      if (!receive.take()) return;
      const std::optional<ArrivedMessage> message = matching_.take_message(src, receive.tag);
      deliver(receive, *message, actions);
      post_envelopes(message->from, actions);
    } else if (src >= 0 && peers_[static_cast<std::size_t>(src)].left) {
      end_for_departed(src);
    } else if (src < 0 && all_peers_left()) {
      if (!receive.shared || receive.shared->all_have_left()) throw DistNetworkError(all_have_left);
    } else {
      const Deadline deadline = receive.deadline;
      matching_.post(std::move(receive));
      wake_if_before(deadline);
    }
  }
  for (const auto& action : actions) action();
}

// The thread.
void Messenger::take_in() {
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(envelope_block);
  const std::span<std::byte> block(memory.get(), envelope_block);
  try {
    for (;;) {
      std::unique_ptr<AnySourceReceive> any_receive = transport_.post_recv_any(envelope_slot, block);
      if (take_one_in(*any_receive, block)) continue;
      any_receive.reset();
      if (is_closing()) return;
      // A block that came after the receive was retracted counts as a use of the thread.
      start_on_envelope();
      if (thread_.end_if_unused()) return;
    }
  } catch (...) {
    fail_all(std::current_exception());
  }
}

// Handles one block. False: the group is being destroyed, or nothing has happened for idle_limit and the
// any-source receive is retracted.
bool Messenger::take_one_in(AnySourceReceive& any_receive, std::span<const std::byte> block) {
  bool may_retract = true;
  for (AnySourceReceive::Arrival arrival; arrival.event != AnySourceReceive::Event::message;) {
    const Deadline idle_until = deadline_after(idle_limit);
    Deadline until;
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return false;
      any_receive_ = &any_receive;
      until = next_deadline();
      if (may_retract && !awaits_blocks()) until = std::min(until, idle_until);
      waits_until_ = until;
    }
    // If wait() throws, no other thread may find the receive.
    struct Forget {
      Messenger& here;
      ~Forget() {
        const std::lock_guard lock(here.mutex_);
        here.any_receive_ = nullptr;
      }
    };
    {
      const Forget forget{*this};
      arrival = any_receive.wait(until);
    }
    Actions actions;
    Outbox::Blocks arrived;
    {
      const std::lock_guard lock(mutex_);
      if (arrival.event == AnySourceReceive::Event::message)
        arrived = handle_block(arrival.peer, block, actions);
      if (arrival.event == AnySourceReceive::Event::left) on_peer_left(arrival.peer, actions);
      expire(actions);
    }
    transfers_.expire();
    changed_.notify_all();
    for (const auto& action : actions) action();
    for (const auto& one : arrived) one->wait(Deadline::max());  // returns at once
    if (arrival.event == AnySourceReceive::Event::left) may_retract = true;
    if (arrival.event != AnySourceReceive::Event::nothing || !has_passed(idle_until) || !is_idle()) continue;
    if (any_receive.retract()) return false;
    may_retract = false;  // a block is coming, or the transport cannot retract
  }
  return true;
}

// No call since the thread asked last, no message expected and none to send.
bool Messenger::is_idle() {
  if (!thread_.was_unused()) return false;
  const std::lock_guard lock(mutex_);
  const auto sends = [](const Peer& peer) { return peer.outbox.has_waiting(); };
  return !closing_ && !awaits_blocks() && transfers_.is_idle() && std::ranges::none_of(peers_, sends);
}

// With mutex_ held. Another rank, or a deadline, ended what waits.
bool Messenger::awaits_blocks() const {
  return matching_.has_receives() || !outgoing_.is_empty() || !cleared_.is_empty();
}

bool Messenger::is_closing() {
  const std::lock_guard lock(mutex_);
  return closing_;
}

// The earliest deadline. With mutex_ held.
Deadline Messenger::next_deadline() {
  matching_.drop_taken();
  return std::min({transfers_.next_deadline(), matching_.next_deadline(), outgoing_.next_deadline(),
                   cleared_.next_deadline()});
}

// With mutex_ held.
void Messenger::wake_if_before(Deadline deadline) {
  if (any_receive_ && deadline < waits_until_) {
    waits_until_ = deadline;
    any_receive_->wake();
  }
}

// With mutex_ held, as all that follow.
Outbox::Blocks Messenger::handle_block(int peer, std::span<const std::byte> block, Actions& actions) {
  Outbox::Blocks arrived;
  bool is_first = true;
  for (bool is_last = false; !is_last; is_first = false) {
    const std::optional<Envelope> envelope = parse_envelope(block);
    if (!envelope) throw DistNetworkError("it runs another version of libdlaunch", {.peer = peer});
    if (is_first) arrived = peers_[static_cast<std::size_t>(peer)].outbox.receive(envelope->acknowledged);
    handle(peer, *envelope, block.subspan(sizeof *envelope, envelope->carried()), actions);
    block = block.subspan(sizeof *envelope + envelope->carried());
    is_last = envelope->is_last != 0;
  }
  post_envelopes(peer, actions);
  return arrived;
}

void Messenger::handle(int peer, const Envelope& envelope, std::span<const std::byte> content,
                       Actions& actions) {
  switch (envelope.kind) {
    case Envelope::Kind::eager:
      return arrive({peer, envelope, {content.begin(), content.end()}, true}, actions);
    case Envelope::Kind::rts:
      return arrive({peer, envelope}, actions);
    case Envelope::Kind::cts:
      return handle_cts(peer, envelope, actions);
    case Envelope::Kind::data:
      return handle_data(peer, envelope, content, actions);
    case Envelope::Kind::credit:
      int& credits = peers_[static_cast<std::size_t>(peer)].credits;
      const auto given = std::min(envelope.count, std::uint64_t{credits_at_start});
      credits = std::min(credits + static_cast<int>(given), credits_at_start);
      return;
  }
}

void Messenger::handle_cts(int peer, const Envelope& envelope, Actions& actions) {
  const Outgoing* const accepted = outgoing_.find({peer, envelope.number});
  if (!accepted) return;  // too late
  if (accepted->tensor.nbytes() <= short_message) {
    return peers_[static_cast<std::size_t>(peer)].outbox.add({.kind = Envelope::Kind::data,
                                                              .dtype = accepted->tensor.dtype(),
                                                              .count = accepted->tensor.numel(),
                                                              .number = envelope.number});
  }
  const Outgoing message = *outgoing_.take({peer, envelope.number});
  try {
    transfer({peer, true}, transport_.post_send(peer, data_slot(envelope.number), message.tensor.bytes()),
             message.deadline, message.source);
  } catch (...) {
    actions.emplace_back([message, error = std::current_exception()] { message.source.fail(error); });
  }
}

void Messenger::handle_data(int peer, const Envelope& envelope, std::span<const std::byte> content,
                            Actions& actions) {
  const std::optional<ClearedReceive> accepted = cleared_.take({peer, envelope.number});
  if (!accepted) return;  // too late
  const Tensor& tensor = accepted->receive.tensor;
  if (content.size() != tensor.nbytes()) {
    throw DistNetworkError("it sent another message than it had offered", {.peer = peer});
  }
  if (!content.empty()) std::memcpy(tensor.data(), content.data(), content.size());
  actions.emplace_back([source = accepted->receive.source, peer] { source.succeed_from(peer); });
}

void Messenger::arrive(ArrivedMessage message, Actions& actions) {
  const std::optional<PostedReceive> receive = matching_.take_receive(message.from, message.envelope.tag);
  if (receive) return deliver(*receive, message, actions);
  matching_.keep(std::move(message));
}

void Messenger::deliver(const PostedReceive& receive, const ArrivedMessage& message, Actions& actions) {
  const Envelope& envelope = message.envelope;
  if (envelope.dtype != receive.tensor.dtype() || envelope.count != receive.tensor.numel()) {
    const std::string reason = "it sends " + describe(envelope.dtype, envelope.count) + " with " +
                               describe(envelope.tag) + ", this rank receives " +
                               describe(receive.tensor.dtype(), receive.tensor.numel());
    actions.emplace_back(
        [receive, error = network_error(reason, message.from)] { receive.source.fail(error); });
    return;
  }
  if (envelope.kind == Envelope::Kind::eager) {
    if (!message.content.empty()) {
      std::memcpy(receive.tensor.data(), message.content.data(), message.content.size());
    }
    actions.emplace_back([receive, from = message.from] { receive.source.succeed_from(from); });
    if (message.on_credit) return_credit(message.from);
    return;
  }
  const Envelope accept{.kind = Envelope::Kind::cts, .number = envelope.number};
  Outbox& outbox = peers_[static_cast<std::size_t>(message.from)].outbox;
  if (envelope.payload() <= short_message) {
    cleared_.add({message.from, envelope.number}, receive.deadline, {receive, message.from});
    wake_if_before(receive.deadline);
    return outbox.add(accept);
  }
  try {
    std::unique_ptr<Transfer> data =
        transport_.post_recv(message.from, data_slot(envelope.number), receive.tensor.bytes());
    outbox.add(accept);
    transfer({message.from, false}, std::move(data), receive.deadline, receive.source);
  } catch (...) {
    actions.emplace_back([receive, error = std::current_exception()] { receive.source.fail(error); });
  }
}

void Messenger::return_credit(int peer) {
  Peer& sender = peers_[static_cast<std::size_t>(peer)];
  if (++sender.taken < credits_at_start / 2) return;
  const int count = std::exchange(sender.taken, 0);
  sender.outbox.add({.kind = Envelope::Kind::credit, .count = static_cast<std::uint64_t>(count)});
}

// Sends what may go. If the peer is lost, the calls that need it fail as after any other loss.
void Messenger::post_envelopes(int peer, Actions& actions) {
  Peer& state = peers_[static_cast<std::size_t>(peer)];
  const auto fill = [&](const Envelope& envelope, std::byte* content) {
    const std::optional<Outgoing> message = outgoing_.take({peer, envelope.number});
    if (!message) return false;  // too late
    if (envelope.payload() > 0) std::memcpy(content, message->tensor.data(), envelope.payload());
    actions.emplace_back([source = message->source] { source.succeed(); });
    return true;
  };
  try {
    if (!state.left && !state.unreachable) state.outbox.post(transport_, peer, fill);
  } catch (const DistError&) {
    state.unreachable = std::current_exception();
  }
  if (state.left || state.unreachable) state.outbox.drop_waiting();
}

// Waits for data under way: completes the Work when they have arrived.
void Messenger::transfer(const Transfers::Route& route, std::unique_ptr<Transfer> data, Deadline deadline,
                         const WorkSource& source) {
  const auto end = [source, route](const std::exception_ptr& error) {
    if (error) {
      source.fail(error);
    } else if (route.outgoing) {
      source.succeed();
    } else {
      source.succeed_from(route.peer);
    }
  };
  if (transfers_.add({route, deadline, end, std::move(data)})) wake_if_before(deadline);
}

// With mutex_ held. Whether there were other ranks and all have left; without those of this host, if these
// share memory.
bool Messenger::all_peers_left() const {
  const HostMap* const hosts = transport_.message_rings() != nullptr ? transport_.hosts() : nullptr;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    if (peer == rank_ || (hosts != nullptr && hosts->host_of(peer) == hosts->host_of(rank_))) continue;
    if (!peers_[static_cast<std::size_t>(peer)].left) return false;
  }
  return peers_.size() > 1;
}

bool Messenger::has_departed(int peer) const {
  const std::vector<int> departed = transport_.departed();
  return std::ranges::find(departed, peer) != departed.end();
}

// A call that needs a peer that has left ends the group; the error names that peer on all ranks.
void Messenger::end_for_departed(int peer) {
  transport_.abort_for(peer, left_the_group);
  throw DistNetworkError(left_the_group, {.peer = peer});
}

// The peer has left in order: all its messages are here, and no more will come.
void Messenger::on_peer_left(int peer, Actions& actions) {
  if (std::exchange(peers_[static_cast<std::size_t>(peer)].left, true)) return;
  const auto fail = [&](const WorkSource& source) {
    actions.emplace_back([this, source, error = network_error(left_the_group, peer), peer] {
      transport_.abort_for(peer, left_the_group);
      source.fail(error);
    });
  };
  peers_[static_cast<std::size_t>(peer)].outbox.drop_waiting();
  for (const PostedReceive& receive : matching_.take_receives_from(peer)) fail(receive.source);
  for (const ClearedReceive& accepted : cleared_.take_all(peer)) fail(accepted.receive.source);
  for (const Outgoing& message : outgoing_.take_all(peer)) fail(message.source);
  if (!all_peers_left()) return;
  for (const PostedReceive& receive : matching_.take_receives_from_nobody()) {
    actions.emplace_back([source = receive.source] { source.fail(network_error(all_have_left, -1)); });
  }
}

// A message missed its deadline; the error names the peer on all ranks.
void Messenger::give_up(int peer, const std::string& reason, const WorkSource& source) {
  if (peer >= 0) transport_.abort_for(peer, "rank " + std::to_string(rank_) + " gave up: " + reason);
  source.fail(network_error(reason, peer));
}

void Messenger::expire(Actions& actions) {
  const Deadline now = std::chrono::steady_clock::now();
  for (const PostedReceive& receive : matching_.take_expired(now)) {
    const std::string whose = receive.from < 0 ? "any rank" : "it";
    actions.emplace_back([this, source = receive.source, from = receive.from,
                          reason = "no message with " + describe(receive.tag) + " from " + whose +
                                   " before the deadline"] { give_up(from, reason, source); });
  }
  while (const std::optional<ClearedReceive> accepted = cleared_.take_expired(now)) {
    actions.emplace_back([source = accepted->receive.source, from = accepted->from] {
      source.fail(std::make_exception_ptr(late_error(from, false)));
    });
  }
  while (const std::optional<Outgoing> message = outgoing_.take_expired(now)) {
    actions.emplace_back([this, source = message->source, to = message->to,
                          reason = "it did not receive the message with " + describe(message->tag) +
                                   " before the deadline"] { give_up(to, reason, source); });
  }
}

void Messenger::fail_all(const std::exception_ptr& error) {
  std::vector<WorkSource> sources;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) ended_ = error;
    for (const PostedReceive& receive : matching_.take_all_receives()) sources.push_back(receive.source);
    for (const ClearedReceive& accepted : cleared_.take_all(std::nullopt))
      sources.push_back(accepted.receive.source);
    for (const Outgoing& message : outgoing_.take_all(std::nullopt)) sources.push_back(message.source);
  }
  changed_.notify_all();
  for (const WorkSource& source : sources) source.fail(error);
}

void Messenger::drain(Deadline deadline) noexcept {
  bool is_under_way = false;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline,
                        [this] { return (outgoing_.is_empty() && cleared_.is_empty()) || ended_; });
    is_under_way = !cleared_.is_empty();
  }
  flush(deadline);
  if (!transfers_.drain(deadline) || is_under_way) {
    transport_.abort("the group was destroyed before a message had come through");
    transfers_.drain(deadline_after(longest_timeout));  // every Work has ended by now
  }
  fail_all(std::make_exception_ptr(DistError(group_was_destroyed)));
}

void Messenger::flush(Deadline deadline) noexcept {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    Outbox& outbox = peers_[peer].outbox;
    std::deque<std::unique_ptr<Transfer>> posted;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, deadline, [&] { return !outbox.has_waiting() || ended_; });
      posted = outbox.take_posted();
    }
    try {
      for (const auto& block : posted) block->wait(deadline);
    } catch (const DistError&) {
      if (!has_passed(deadline)) continue;  // if the peer is lost or has left, it does not want them
      log(LogLevel::warning, "rank " + std::to_string(peer) + " of " + std::to_string(peers_.size()) +
                                 " receives no messages; some that were sent to it may be lost");
    }
  }
}

}  // namespace dlaunch::internal
