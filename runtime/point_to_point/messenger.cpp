#include "runtime/point_to_point/messenger.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/deadline.h"
#include "runtime/errors.h"
#include "runtime/log.h"

namespace dlaunch {

struct Messenger::Received {
  int from;
  Letter letter;
  std::vector<std::byte> content;  // empty for an offer
  bool on_credit = false;          // the sender gets a credit back when it is taken
};

struct Messenger::Awaited {
  Tensor tensor;
  int from;  // -1: any
  Tag tag;
  Deadline deadline;
  WorkSource source;
};

struct Messenger::Outgoing {
  Tensor tensor;
  int to;
  Tag tag;
  Deadline deadline;
  WorkSource source;
};

struct Messenger::Peer {
  // Memory before the transfer that uses it.
  struct Posted {
    std::unique_ptr<std::byte[]> block;
    std::unique_ptr<Transfer> transfer;
  };
  // Contents that no credit has come back for, and offers that were not accepted: whether they have arrived
  // depends on whether the peer has begun to take part in point-to-point messages.
  std::deque<Posted> unconfirmed;
  std::map<std::uint64_t, Posted> offers;
  int credits = credits_at_start;
  int taken = 0;  // of its contents, since the last credit
  bool left = false;
};

namespace {

// Above the program's tags only objects travel.
std::string in_words(Tag tag) {
  return tag >> 32U == 0 ? "tag " + std::to_string(tag) : std::string("an object");
}

std::string in_words(DType dtype, std::uint64_t count) {
  return std::to_string(count) + " x " + std::string(to_string(dtype));
}

// A letter on its way, with its memory.
class SentLetter final : public Transfer {
 public:
  SentLetter(Transport& transport, int peer, const Letter& letter)
      : letter_(letter),
        transfer_(transport.post_send(peer, letter_slot, std::as_bytes(std::span(&letter_, 1)))) {}
  void wait(Deadline deadline) override { transfer_->wait(deadline); }
  bool wait_until(Deadline deadline) override { return transfer_->wait_until(deadline); }

 private:
  const Letter letter_;
  const std::unique_ptr<Transfer> transfer_;
};

// Data on their way here, and the letter that has asked for them, which has arrived before they come.
class AcceptedData final : public Transfer {
 public:
  AcceptedData(std::unique_ptr<Transfer> data, std::unique_ptr<Transfer> letter)
      : data_(std::move(data)), letter_(std::move(letter)) {}
  void wait(Deadline deadline) override { data_->wait(deadline); }
  bool wait_until(Deadline deadline) override { return data_->wait_until(deadline); }

 private:
  const std::unique_ptr<Transfer> data_;
  const std::unique_ptr<Transfer> letter_;
};

constexpr const char* all_have_left = "all other ranks have left the group";

std::exception_ptr network_error(const std::string& reason, int peer) {
  return std::make_exception_ptr(DistNetworkError(reason, {.peer = peer}));
}

}  // namespace

Messenger::Messenger(Transport& transport)
    : transport_(transport),
      rank_(transport.rank()),
      peers_(static_cast<std::size_t>(transport.size())),
      thread_([this] { take_in(); }) {}

Messenger::~Messenger() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (inbox_) inbox_->wake();
  }
  thread_.join();
  fail_all(std::make_exception_ptr(DistError("the group was destroyed before the message was received")));
}

Work Messenger::send(const Tensor& tensor, int dst, Tag tag, Deadline deadline) {
  Actions actions;
  const WorkSource source;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) std::rethrow_exception(ended_);
    Letter letter{.tag = tag, .dtype = tensor.dtype(), .count = tensor.numel()};
    Peer& peer = peers_[static_cast<std::size_t>(dst)];
    if (peer.left) miss(dst);
    if (dst == rank_) {
      const std::span<const std::byte> bytes = tensor.bytes();
      arrive(dst, {dst, letter, {bytes.begin(), bytes.end()}}, actions);
      actions.emplace_back([source] { source.succeed(); });
    } else if (tensor.nbytes() <= short_message && peer.credits > 0) {
      --peer.credits;
      Peer::Posted posted{std::make_unique_for_overwrite<std::byte[]>(sizeof letter + tensor.nbytes()),
                          nullptr};
      std::memcpy(posted.block.get(), &letter, sizeof letter);
      if (tensor.nbytes() > 0)
        std::memcpy(posted.block.get() + sizeof letter, tensor.data(), tensor.nbytes());
      posted.transfer =
          transport_.post_send(dst, letter_slot, {posted.block.get(), sizeof letter + tensor.nbytes()});
      peer.unconfirmed.push_back(std::move(posted));
      actions.emplace_back([source] { source.succeed(); });
    } else {
      letter.kind = Letter::Kind::offer;
      letter.number = ++last_number_;
      Peer::Posted posted{std::make_unique_for_overwrite<std::byte[]>(sizeof letter), nullptr};
      std::memcpy(posted.block.get(), &letter, sizeof letter);
      posted.transfer = transport_.post_send(dst, letter_slot, {posted.block.get(), sizeof letter});
      peer.offers.emplace(letter.number, std::move(posted));
      outgoing_.emplace(letter.number, Outgoing{tensor, dst, tag, deadline, source});
      wake_if_before(deadline);
    }
  }
  for (const auto& action : actions) action();
  return source.work();
}

Work Messenger::recv(const Tensor& tensor, int src, Tag tag, Deadline deadline) {
  Actions actions;
  const WorkSource source;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) std::rethrow_exception(ended_);
    Awaited receive{tensor, src, tag, deadline, source};
    if (std::optional<Received> message = take(src, tag)) {
      give(receive, *message, actions);
    } else if (src >= 0 && peers_[static_cast<std::size_t>(src)].left) {
      miss(src);
    } else if (src < 0 && is_left_alone()) {
      throw DistNetworkError(all_have_left);
    } else {
      awaited_[tag].push_back(std::move(receive));
      wake_if_before(deadline);
    }
  }
  for (const auto& action : actions) action();
  return source.work();
}

// The oldest message that fits, if there is one. With mutex_ held.
std::optional<Messenger::Received> Messenger::take(int src, Tag tag) {
  const auto with_tag = received_.find(tag);
  if (with_tag == received_.end()) return std::nullopt;
  std::list<Received>& list = with_tag->second;
  const auto first =
      std::ranges::find_if(list, [src](const Received& message) { return src < 0 || message.from == src; });
  if (first == list.end()) return std::nullopt;
  Received message = std::move(*first);
  list.erase(first);
  if (list.empty()) received_.erase(with_tag);
  return message;
}

// The thread.
void Messenger::take_in() {
  const auto block = std::make_unique_for_overwrite<std::byte[]>(letter_block);
  try {
    for (;;) {
      const std::unique_ptr<Inbox> inbox = transport_.post_recv_any(letter_slot, {block.get(), letter_block});
      Inbox::Arrival arrival;
      while (arrival.event != Inbox::Event::message) {
        Deadline until;
        {
          const std::lock_guard lock(mutex_);
          if (closing_) return;
          inbox_ = inbox.get();
          until = waits_until_ = next_deadline();
        }
        // Whatever wait() throws, nobody may find the inbox afterwards.
        struct Forget {
          Messenger& here;
          ~Forget() {
            const std::lock_guard lock(here.mutex_);
            here.inbox_ = nullptr;
          }
        };
        {
          const Forget forget{*this};
          arrival = inbox->wait(until);
        }
        Actions actions;
        {
          const std::lock_guard lock(mutex_);
          if (arrival.event == Inbox::Event::message) handle(arrival.peer, block.get(), actions);
          if (arrival.event == Inbox::Event::left) lose(arrival.peer, actions);
          expire(actions);
        }
        transfers_.expire();
        changed_.notify_all();
        for (const auto& action : actions) action();
      }
    }
  } catch (...) {
    fail_all(std::current_exception());
  }
}

// Of everything that waits. With mutex_ held.
Deadline Messenger::next_deadline() {
  Deadline next = transfers_.next_deadline();
  for (const auto& [tag, list] : awaited_) {
    for (const Awaited& receive : list) next = std::min(next, receive.deadline);
  }
  for (const auto& [number, message] : outgoing_) next = std::min(next, message.deadline);
  return next;
}

// With mutex_ held.
void Messenger::wake_if_before(Deadline deadline) {
  if (inbox_ && deadline < waits_until_) {
    waits_until_ = deadline;
    inbox_->wake();
  }
}

// With mutex_ held, as all that follow.
void Messenger::handle(int peer, const std::byte* block, Actions& actions) {
  const std::optional<Letter> letter = read_letter(block);
  if (!letter) throw DistNetworkError("it runs another version of libdlaunch", {.peer = peer});
  Peer& sender = peers_[static_cast<std::size_t>(peer)];
  switch (letter->kind) {
    case Letter::Kind::content: {
      const std::byte* const begin = block + sizeof *letter;
      return arrive(peer, {peer, *letter, {begin, begin + letter->payload()}, true}, actions);
    }
    case Letter::Kind::offer:
      return arrive(peer, {peer, *letter, {}}, actions);
    case Letter::Kind::accept:
      return handle_accept(peer, *letter, actions);
    case Letter::Kind::credit:
      for (std::uint64_t i = 0; i < letter->count && !sender.unconfirmed.empty(); ++i) {
        ++sender.credits;
        sender.unconfirmed.front().transfer->wait(Deadline::max());  // it has arrived: returns at once
        sender.unconfirmed.pop_front();
      }
      return;
  }
}

void Messenger::handle_accept(int peer, const Letter& letter, Actions& actions) {
  const auto found = outgoing_.find(letter.number);
  if (found == outgoing_.end()) return;  // it had become too late
  const Outgoing message = std::move(found->second);
  outgoing_.erase(found);
  auto& offers = peers_[static_cast<std::size_t>(peer)].offers;
  if (const auto offer = offers.find(letter.number); offer != offers.end()) {
    offer->second.transfer->wait(Deadline::max());  // it has arrived: returns at once
    offers.erase(offer);
  }
  try {
    transfer({peer, true}, transport_.post_send(peer, data_slot(letter.number), message.tensor.bytes()),
             message.deadline, message.source);
  } catch (...) {
    actions.emplace_back([message, error = std::current_exception()] { message.source.fail(error); });
  }
}

void Messenger::arrive(int peer, Received message, Actions& actions) {
  const Tag tag = message.letter.tag;
  const auto waiting = awaited_.find(tag);
  if (waiting != awaited_.end()) {
    std::list<Awaited>& list = waiting->second;
    const auto first = std::ranges::find_if(
        list, [peer](const Awaited& receive) { return receive.from < 0 || receive.from == peer; });
    if (first != list.end()) {
      Awaited receive = std::move(*first);
      list.erase(first);
      if (list.empty()) awaited_.erase(waiting);
      return give(receive, message, actions);
    }
  }
  received_[tag].push_back(std::move(message));
}

void Messenger::give(const Awaited& receive, const Received& message, Actions& actions) {
  const Letter& letter = message.letter;
  if (letter.dtype != receive.tensor.dtype() || letter.count != receive.tensor.numel()) {
    const std::string reason = "it sends " + in_words(letter.dtype, letter.count) + " with " +
                               in_words(letter.tag) + ", this rank receives " +
                               in_words(receive.tensor.dtype(), receive.tensor.numel());
    actions.emplace_back(
        [receive, error = network_error(reason, message.from)] { receive.source.fail(error); });
    return;
  }
  if (letter.kind == Letter::Kind::content) {
    if (!message.content.empty()) {
      std::memcpy(receive.tensor.data(), message.content.data(), message.content.size());
    }
    actions.emplace_back([receive, from = message.from] { receive.source.succeed_from(from); });
    if (message.on_credit) give_back_credit(message.from, receive.deadline);
    return;
  }
  try {
    std::unique_ptr<Transfer> data =
        transport_.post_recv(message.from, data_slot(letter.number), receive.tensor.bytes());
    auto accept = std::make_unique<SentLetter>(transport_, message.from,
                                               Letter{.kind = Letter::Kind::accept, .number = letter.number});
    transfer({message.from, false}, std::make_unique<AcceptedData>(std::move(data), std::move(accept)),
             receive.deadline, receive.source);
  } catch (...) {
    actions.emplace_back([receive, error = std::current_exception()] { receive.source.fail(error); });
  }
}

void Messenger::give_back_credit(int peer, Deadline deadline) {
  Peer& sender = peers_[static_cast<std::size_t>(peer)];
  if (++sender.taken < credits_at_start / 2 || sender.left) return;
  const int count = std::exchange(sender.taken, 0);
  // To a peer that takes letters in, since it has sent one: it arrives without anybody's doing. If it does
  // not, what needs the credit fails by itself.
  const Letter letter{.kind = Letter::Kind::credit, .count = static_cast<std::uint64_t>(count)};
  transfers_.add({{peer, true},
                  deadline,
                  [](const std::exception_ptr&) {},
                  std::make_unique<SentLetter>(transport_, peer, letter)});
}

// Data that are on their way: completes the Work when they are through.
void Messenger::transfer(const Transfers::Way& way, std::unique_ptr<Transfer> data, Deadline deadline,
                         const WorkSource& source) {
  const auto end = [source, way](const std::exception_ptr& error) {
    if (error) {
      source.fail(error);
    } else if (way.outgoing) {
      source.succeed();
    } else {
      source.succeed_from(way.peer);
    }
  };
  if (transfers_.add({way, deadline, end, std::move(data)})) wake_if_before(deadline);
}

// With mutex_ held. Whether there were others and all have left.
bool Messenger::is_left_alone() const {
  return peers_.size() > 1 && std::ranges::count(peers_, false, &Peer::left) == 1;
}

// What needs a peer that has left ends the group; the other ranks are to hear because of whom.
void Messenger::miss(int peer) {
  transport_.abort_for(peer, left_the_group);
  throw DistNetworkError(left_the_group, {.peer = peer});
}

// The peer has left in order: what it has sent is here, nothing more will come.
void Messenger::lose(int peer, Actions& actions) {
  if (std::exchange(peers_[static_cast<std::size_t>(peer)].left, true)) return;
  const auto fail = [&](const WorkSource& source) {
    actions.emplace_back([this, source, error = network_error(left_the_group, peer), peer] {
      transport_.abort_for(peer, left_the_group);
      source.fail(error);
    });
  };
  const bool alone = is_left_alone();
  for (auto& [tag, list] : awaited_) {
    std::erase_if(list, [&](const Awaited& receive) {
      if (receive.from == peer) {
        fail(receive.source);
      } else if (receive.from < 0 && alone) {
        actions.emplace_back([source = receive.source] { source.fail(network_error(all_have_left, -1)); });
      } else {
        return false;
      }
      return true;
    });
  }
  std::erase_if(outgoing_, [&](const auto& entry) {
    if (entry.second.to != peer) return false;
    fail(entry.second.source);
    return true;
  });
}

// Nothing came of a message before its deadline; the other ranks too are to name the one that was waited for.
void Messenger::give_up(int peer, const std::string& reason, const WorkSource& source) {
  if (peer >= 0) transport_.abort_for(peer, "rank " + std::to_string(rank_) + " gave up: " + reason);
  source.fail(network_error(reason, peer));
}

void Messenger::expire(Actions& actions) {
  for (auto& [tag, list] : awaited_) {
    std::erase_if(list, [&](const Awaited& receive) {
      if (!has_passed(receive.deadline)) return false;
      const std::string whose = receive.from < 0 ? "any rank" : "it";
      actions.emplace_back([this, source = receive.source, from = receive.from,
                            reason = "no message with " + in_words(receive.tag) + " from " + whose +
                                     " before the deadline"] { give_up(from, reason, source); });
      return true;
    });
  }
  std::erase_if(awaited_, [](const auto& entry) { return entry.second.empty(); });
  std::erase_if(outgoing_, [&](const auto& entry) {
    const Outgoing& message = entry.second;
    if (!has_passed(message.deadline)) return false;
    actions.emplace_back([this, source = message.source, to = message.to,
                          reason = "it did not receive the message with " + in_words(message.tag) +
                                   " before the deadline"] { give_up(to, reason, source); });
    return true;
  });
}

void Messenger::fail_all(const std::exception_ptr& error) {
  std::vector<WorkSource> sources;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) ended_ = error;
    for (auto& [tag, list] : awaited_) {
      for (const Awaited& receive : list) sources.push_back(receive.source);
    }
    for (const auto& [number, message] : outgoing_) sources.push_back(message.source);
    awaited_.clear();
    outgoing_.clear();
  }
  changed_.notify_all();
  for (const WorkSource& source : sources) source.fail(error);
}

void Messenger::drain(Deadline deadline) noexcept {
  {
    std::unique_lock lock(mutex_);
    const auto all_accepted = [this] { return outgoing_.empty() || ended_; };
    changed_.wait_until(lock, deadline, all_accepted);
  }
  flush(deadline);
  if (!transfers_.drain(deadline)) {
    transport_.abort("the group was destroyed before a message had come through");
    transfers_.drain(deadline_after(longest_timeout));  // what waits has been told
  }
  fail_all(std::make_exception_ptr(DistError("the group was destroyed before the message was received")));
}

void Messenger::flush(Deadline deadline) noexcept {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    std::deque<Peer::Posted> posted;
    {
      const std::lock_guard lock(mutex_);
      posted.swap(peers_[peer].unconfirmed);
    }
    try {
      for (const Peer::Posted& message : posted) message.transfer->wait(deadline);
    } catch (const DistError&) {
      if (!has_passed(deadline)) continue;  // lost, or it has left: it does not want them
      log(LogLevel::warning, "rank " + std::to_string(peer) + " of " + std::to_string(peers_.size()) +
                                 " takes no messages in; some that were sent to it may be lost");
    }
  }
}

}  // namespace dlaunch
