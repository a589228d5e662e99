#include "runtime/rpc/peer.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {

Peer::Peer(WorkerContact worker, const Hooks& hooks) : hooks_(hooks), calls_(describe(worker)) {
  known_.push_back(std::move(worker));
  worker_ = &known_.back();
}

bool Peer::learn(const WorkerContact& worker) {
  const Lock lock(mutex_);
  const WorkerContact& known = known_.back();
  if (!known.name.empty() && (known.name != worker.name || known.host != worker.host)) return false;
  const bool is_new = known.name.empty() || (known.contact.port == 0 && worker.contact.port != 0);
  if (!is_new) return true;
  known_.push_back(worker);
  worker_.store(&known_.back(), std::memory_order_release);
  calls_.set_callee(describe(worker));
  return true;
}

// Returns whether there is room by the call's deadline.
bool Peer::await_room(Lock& lock, const CallTable::Call& call) {
  const auto may_begin = [&] { return !closed_.empty() || calls_.has_room(call.bytes); };
  if (may_begin()) return true;
  bool in_time = true;
  ++wait_for_room_;
  if (call.deadline == Deadline::max()) {
    room_.wait(lock, may_begin);
  } else {
    in_time = room_.wait_until(lock, call.deadline, may_begin);
  }
  --wait_for_room_;
  return in_time;
}

void Peer::begin(CallTable::Call call, codec::Bytes body) {
  Lock lock(mutex_);
  const bool in_time = await_room(lock, call);
  const Deadline deadline = call.deadline;
  const std::uint64_t number = calls_.next_number();
  const WorkerContact& callee = worker();
  call.tag = hooks_.log->begin({.is_served = false,
                                .peer = callee.rank,
                                .worker = callee.name,
                                .function = call.function,
                                .number = number,
                                .bytes = call.bytes});
  calls_.begin(std::move(call));
  RpcMessage message{PartHead::request, number, std::move(body)};
  if (!closed_.empty() || !in_time) {
    unsent_.push_back(std::move(message));
    std::vector<CallTable::Ended> ended;
    const auto withdrawing = [this](std::span<const std::uint64_t> numbers) { return withdraw(numbers); };
    if (in_time) {
      calls_.lose(closed_, withdrawing, ended);
    } else {
      calls_.expire(deadline, withdrawing, ended);
    }
    return deliver(lock, std::move(ended));
  }
  if (link_) {
    send(std::move(message));
  } else {
    unsent_.push_back(std::move(message));
    if (!std::exchange(is_connecting_, true)) hooks_.connect(*this);
  }
  if (deadline != Deadline::max()) hooks_.wake_at(deadline);
}

void Peer::on_connected(std::shared_ptr<Link> link) {
  const Lock lock(mutex_);
  is_connecting_ = false;
  is_lost_ = false;
  has_answered_ = false;
  link_ = std::move(link);
  for (RpcMessage& message : unsent_) send(std::move(message));
  unsent_.clear();
}

// REQUIRES: mutex_ is held, and there is a connection.
void Peer::send(RpcMessage message) {
  consider_sides(message.body.size_of_blocks());
  queued_.push_back(message.number);
  if (link_->send(std::move(message))) mark_sent();
}

// REQUIRES: as send().
void Peer::consider_sides(std::size_t bytes) {
  if (bytes >= striped_from && has_answered_) hooks_.add_sides(worker(), link_);
}

void Peer::mark_sent() {
  for (const std::uint64_t number : queued_) {
    if (const CallTable::Call* const call = calls_.find(number)) hooks_.log->advance(call->tag);
  }
  queued_.clear();
}

void Peer::on_drained(const Link& link) {
  const Lock lock(mutex_);
  if (&link == link_.get()) mark_sent();
}

void Peer::on_messages(const Link& link, std::span<RpcMessage> messages) {
  std::vector<CallTable::Ended> ended;
  ended.reserve(messages.size());
  Lock lock(mutex_);
  for (RpcMessage& message : messages) {
    if (message.kind == PartHead::result && !calls_.waits(message.number)) {
      lock.unlock();
      hooks_.on_late_result(worker().id, message.body);
      lock.lock();
    } else if (message.kind == PartHead::goodbye) {
      deliver(lock, std::exchange(ended, {}));
      close(has_ended);
      fail_all(&link, has_ended);
      lock.lock();
    } else {
      on_answer(link, message, ended);
    }
  }
  deliver(lock, std::move(ended));
}

// REQUIRES: mutex_ is held.
void Peer::on_answer(const Link& link, RpcMessage& message, std::vector<CallTable::Ended>& ended) {
  if (message.kind == PartHead::result) {
    const std::size_t sent = calls_.find(message.number)->bytes;
    if (&link == link_.get()) {
      has_answered_ = true;
      consider_sides(std::max(sent, message.body.size_of_blocks()));
    }
    // It is sent whole by now, unless the other worker is wrong.
    if (sent >= codec::shortest_block) withdraw({&message.number, 1});
    calls_.answer(message.number, std::move(message.body), ended);
  } else if (message.kind == PartHead::failure) {
    const std::optional<CallFailure> failure = parse_failure(message.body.front);
    withdraw({&message.number, 1});
    calls_.answer(message.number,
                  failure.value_or(CallFailure{.type = "", .text = "its failure does not decode"}), ended);
  }
}

// REQUIRES: mutex_ is held.
std::unordered_set<std::uint64_t> Peer::withdraw(std::span<const std::uint64_t> numbers) {
  if (numbers.empty()) return {};
  std::unordered_set<std::uint64_t> unsent =
      link_ ? link_->withdraw(numbers) : std::unordered_set<std::uint64_t>();
  if (unsent_.empty()) return unsent;
  const std::unordered_set<std::uint64_t> wanted(numbers.begin(), numbers.end());
  std::erase_if(unsent_, [&](const RpcMessage& message) {
    return wanted.contains(message.number) && unsent.insert(message.number).second;
  });
  return unsent;
}

void Peer::fail_all(const Link* link, const std::string& why) {
  Lock lock(mutex_);
  if (link && link != link_.get()) return;
  std::vector<CallTable::Ended> ended;
  const auto withdrawing = [this](std::span<const std::uint64_t> numbers) { return withdraw(numbers); };
  calls_.lose(why, withdrawing, ended);
  is_lost_ = true;
  link_ = nullptr;
  is_connecting_ = false;
  unsent_.clear();
  queued_.clear();
  deliver(lock, std::move(ended));
}

void Peer::close(const std::string& why) {
  const Lock lock(mutex_);
  is_lost_ = true;
  closed_ = why;
  room_.notify_all();
}

bool Peer::is_closed() const {
  const Lock lock(mutex_);
  return !closed_.empty();
}

void Peer::expire(Deadline now) {
  Lock lock(mutex_);
  std::vector<CallTable::Ended> ended;
  const auto withdrawing = [this](std::span<const std::uint64_t> numbers) { return withdraw(numbers); };
  if (calls_.next_deadline() <= now) calls_.expire(now, withdrawing, ended);
  if (calls_.next_deadline() != Deadline::max()) hooks_.wake_at(calls_.next_deadline());
  deliver(lock, std::move(ended));
}

void Peer::help(const future_detail::State& state, Deadline until) {
  std::shared_ptr<Link> link;
  {
    const Lock lock(mutex_);
    link = link_;
    until = std::min(until, calls_.next_deadline());
  }
  const auto done = [&] { return state.is_done(); };
  if (link) hooks_.drive(link, done, until);
}

// Unlocks.
void Peer::deliver(Lock& lock, std::vector<CallTable::Ended> ended) {
  if (wait_for_room_ > 0 && !ended.empty()) room_.notify_all();
  lock.unlock();
  if (!ended.empty()) hooks_.on_ended(ended);
}

std::string Peer::waiting_calls() const {
  const Lock lock(mutex_);
  return calls_.size() == 0 ? "" : calls_.callee() + ": " + calls_.functions();
}

}  // namespace dlaunch::internal
