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

void Peer::begin(CallTable::Call call, codec::Bytes body) {
  Lock lock(mutex_);
  const auto may_begin = [&] { return !closed_.empty() || calls_.has_room(call.bytes); };
  const Deadline deadline = call.deadline;
  bool in_time = true;
  if (deadline == Deadline::max()) {
    room_.wait(lock, may_begin);
  } else {
    in_time = room_.wait_until(lock, deadline, may_begin);
  }
  const std::string function = call.function;
  const std::uint64_t number = calls_.begin(std::move(call));
  calls_.tag_of(number) = hooks_.log->begin({.is_served = false,
                                             .peer = worker().rank,
                                             .worker = worker().name,
                                             .function = function,
                                             .number = number,
                                             .bytes = body.size()});
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
    if (calls_.waits(number)) hooks_.log->advance(calls_.tag_of(number));
  }
  queued_.clear();
}

void Peer::on_drained(const Link& link) {
  const Lock lock(mutex_);
  if (&link == link_.get()) mark_sent();
}

void Peer::on_message(const Link& link, RpcMessage& message) {
  std::vector<CallTable::Ended> ended;
  Lock lock(mutex_);
  if (message.kind == PartHead::result) {
    if (!calls_.waits(message.number)) {
      lock.unlock();
      return hooks_.on_late_result(worker().id, message.body);
    }
    const std::size_t sent = calls_.bytes_of(message.number);
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
  } else if (message.kind == PartHead::goodbye) {
    lock.unlock();
    close(has_ended);
    return fail_all(&link, has_ended);
  }
  deliver(lock, std::move(ended));
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

void Peer::deliver(Lock& lock, std::vector<CallTable::Ended> ended) {
  if (ended.empty()) return;
  room_.notify_all();
  lock.unlock();
  hooks_.on_ended(std::move(ended));
}

std::string Peer::waiting_calls() const {
  const Lock lock(mutex_);
  return calls_.size() == 0 ? "" : calls_.callee() + ": " + calls_.functions();
}

}  // namespace dlaunch::internal
