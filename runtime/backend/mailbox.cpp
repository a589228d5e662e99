#include "runtime/backend/mailbox.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/stragglers.h"

namespace dlaunch::internal {

struct Mailbox::PostedMessage final : Transfer {
  PostedMessage(Mailbox& mailbox, bool is_send, Address where, std::byte* memory, std::size_t length)
      : box(mailbox), send(is_send), address(std::move(where)), data(memory), size(length) {}

  ~PostedMessage() override {
    const std::lock_guard lock(box.mutex_);
    if (!queued) return;
    Queues& queues = box.queues_.at(address);
    (send ? queues.sends : queues.receives).erase(place);
    if (queues.sends.empty() && queues.receives.empty()) box.queues_.erase(address);
  }

  void wait(Deadline deadline) override {
    if (!wait_until(deadline)) throw late_error(peer(), send);
  }

  bool wait_until(Deadline deadline) override {
    std::unique_lock lock(box.mutex_);
    while (queued) {
      box.throw_if_ended(send ? std::get<0>(address) : std::get<1>(address), peer());
      if (has_passed(deadline)) return false;
      box.changed_.wait_until(lock, deadline);
    }
    if (too_long) throw DistBackendError("a message is longer than the receive's memory", {.peer = peer()});
    return true;
  }

  [[nodiscard]] int peer() const { return send ? std::get<1>(address) : std::get<0>(address); }

  Mailbox& box;
  const bool send;
  const Address address;
  std::byte* const data;  // `send` only reads it
  const std::size_t size;
  // protected by box.mutex_
  bool queued = false;
  std::list<PostedMessage*>::iterator place;  // in its queue, while queued
  bool too_long = false;
};

class Mailbox::AnySourceMessage final : public AnySourceReceive {
 public:
  AnySourceMessage(Mailbox& box, int rank, std::uint64_t slot, std::span<std::byte> bytes)
      : box_(box), rank_(rank), slot_(slot), bytes_(bytes), reported_(box.left_.size()) {}

  ~AnySourceMessage() override {
    const std::lock_guard lock(box_.mutex_);
    const auto own = box_.open_.find({rank_, slot_});
    if (own != box_.open_.end() && own->second == this) box_.open_.erase(own);
  }

  Arrival wait(Deadline deadline) override {
    std::unique_lock lock(box_.mutex_);
    for (;;) {
      if (sender_ >= 0) {
        if (too_long_)
          throw DistBackendError("a message is longer than the receive's memory", {.peer = sender_});
        return {Event::message, sender_};
      }
      box_.throw_if_aborted(rank_, -1);
      for (std::size_t peer = 0; peer < reported_.size(); ++peer) {
        if (!box_.left_[peer] || reported_[peer]) continue;
        reported_[peer] = true;
        return {Event::left, static_cast<int>(peer)};
      }
      if (std::exchange(woken_, false) || has_passed(deadline)) return {};
      if (deadline == Deadline::max()) {
        box_.changed_.wait(lock);
      } else {
        box_.changed_.wait_until(lock, deadline);
      }
    }
  }

  void wake() noexcept override {
    const std::lock_guard lock(box_.mutex_);
    woken_ = true;
    box_.changed_.notify_all();
  }

 private:
  friend class Mailbox;
  Mailbox& box_;
  const int rank_;
  const std::uint64_t slot_;
  const std::span<std::byte> bytes_;
  // protected by box_.mutex_
  std::vector<bool> reported_;  // by rank: its end is reported
  int sender_ = -1;
  bool too_long_ = false;
  bool woken_ = false;
};

Mailbox::Mailbox(int size)
    : entered_(static_cast<std::size_t>(size)), left_(static_cast<std::size_t>(size)) {}
Mailbox::~Mailbox() = default;

std::unique_ptr<Transfer> Mailbox::post_send(int from, int to, std::uint64_t slot,
                                             std::span<const std::byte> bytes) {
  return post(std::make_unique<PostedMessage>(*this, true, Address(from, to, slot),
                                              const_cast<std::byte*>(bytes.data()), bytes.size()));
}

std::unique_ptr<Transfer> Mailbox::post_recv(int from, int to, std::uint64_t slot,
                                             std::span<std::byte> bytes) {
  return post(
      std::make_unique<PostedMessage>(*this, false, Address(from, to, slot), bytes.data(), bytes.size()));
}

std::unique_ptr<Transfer> Mailbox::post(std::unique_ptr<PostedMessage> posted) {
  const std::lock_guard lock(mutex_);
  const auto [from, to, slot] = posted->address;
  throw_if_ended(posted->send ? from : to, posted->send ? to : from);
  if (const auto open = open_.find({to, slot}); posted->send && open != open_.end()) {
    take(*posted, *open->second);
    open_.erase(open);
    return posted;
  }
  Queues& queues = queues_[posted->address];
  std::list<PostedMessage*>& others = posted->send ? queues.receives : queues.sends;
  if (others.empty()) {
    std::list<PostedMessage*>& own = posted->send ? queues.sends : queues.receives;
    posted->queued = true;
    posted->place = own.insert(own.end(), posted.get());
    return posted;
  }
  PostedMessage& other = *others.front();
  others.pop_front();
  if (queues.sends.empty() && queues.receives.empty()) queues_.erase(posted->address);
  other.queued = false;
  if (posted->send) {
    match(*posted, other);
  } else {
    match(other, *posted);
  }
  return posted;
}

void Mailbox::match(PostedMessage& send, PostedMessage& receive) {
  if (send.size > receive.size) {
    receive.too_long = true;
  } else if (send.size > 0) {
    std::memcpy(receive.data, send.data, send.size);
  }
  changed_.notify_all();
}

std::unique_ptr<AnySourceReceive> Mailbox::post_recv_any(int to, std::uint64_t slot,
                                                         std::span<std::byte> bytes) {
  auto any_receive = std::make_unique<AnySourceMessage>(*this, to, slot, bytes);
  const std::lock_guard lock(mutex_);
  throw_if_aborted(to, -1);
  for (int from = 0; from < size(); ++from) {
    const auto found = queues_.find({from, to, slot});
    if (found == queues_.end()) continue;
    PostedMessage& first = *found->second.sends.front();
    found->second.sends.pop_front();
    if (found->second.sends.empty()) queues_.erase(found);
    first.queued = false;
    take(first, *any_receive);
    return any_receive;
  }
  open_[{to, slot}] = any_receive.get();
  return any_receive;
}

void Mailbox::take(PostedMessage& send, AnySourceMessage& receive) {
  receive.sender_ = std::get<0>(send.address);
  receive.too_long_ = send.size > receive.bytes_.size();
  if (!receive.too_long_ && send.size > 0) std::memcpy(receive.bytes_.data(), send.data, send.size);
  changed_.notify_all();
}

// A message that was sent may still be received after its sender has left.
template <class Condition>
bool Mailbox::wait_for(const Route& route, int rank, Deadline deadline, const Condition& condition) {
  const int peer = rank == route.from ? route.to : route.from;
  std::unique_lock lock(mutex_);
  while (!condition(eager_messages_[route])) {
    throw_if_ended(rank, peer);
    if (has_passed(deadline)) return false;
    changed_.wait_until(lock, deadline);
  }
  return true;
}

bool Mailbox::await_room(const Route& route, Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    throw_if_ended(route.from, route.to);
  }
  return wait_for(route, route.from, deadline,
                  [](const auto& waiting) { return std::ssize(waiting) < EagerChannel::max_unreceived; });
}

void Mailbox::send(const Route& route, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  throw_if_ended(route.from, route.to);
  eager_messages_[route].emplace_back(bytes.begin(), bytes.end());
  changed_.notify_all();
}

const std::byte* Mailbox::receive(const Route& route, Deadline deadline) {
  const std::byte* message = nullptr;
  const auto is_here = [&message](const auto& waiting) {
    if (!waiting.empty()) message = waiting.front().data();
    return message != nullptr;
  };
  if (deadline == Deadline::min()) {
    const std::lock_guard lock(mutex_);
    is_here(eager_messages_[route]);
  } else {
    wait_for(route, route.to, deadline, is_here);
  }
  return message;
}

void Mailbox::release(const Route& route) noexcept {
  const std::lock_guard lock(mutex_);
  eager_messages_.at(route).pop_front();
  changed_.notify_all();
}

void Mailbox::check(int rank) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted(rank, -1);
}

std::vector<int> Mailbox::departed() {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (left_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

void Mailbox::throw_if_aborted(int rank, int peer) const {
  if (blamed_ >= 0) throw DistNetworkError(reason_, {.peer = blamed_});
  if (aborter_ == rank) throw DistNetworkError(reason_, {.peer = peer});
  if (aborter_ >= 0)
    throw DistNetworkError("rank " + std::to_string(aborter_) + " gave up: " + reason_, {.peer = aborter_});
}

void Mailbox::throw_if_ended(int rank, int peer) const {
  throw_if_aborted(rank, peer);
  if (left_[static_cast<std::size_t>(peer)]) throw DistNetworkError(left_the_group, {.peer = peer});
}

void Mailbox::abort(int rank, const std::string& reason, int blamed) {
  const std::lock_guard lock(mutex_);
  if (aborter_ >= 0) return;
  aborter_ = rank;
  reason_ = reason;
  blamed_ = blamed;
  changed_.notify_all();
}

void Mailbox::enter(int rank, std::uint64_t number) noexcept {
  entered_[static_cast<std::size_t>(rank)].store(number, std::memory_order_relaxed);
}

std::vector<int> Mailbox::missing(int asking, std::uint64_t number) {
  check(asking);
  std::vector<RankProgress> others;
  for (int rank = 0; rank < size(); ++rank) {
    const std::uint64_t entered = entered_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed);
    if (rank != asking) others.push_back({rank, entered});
  }
  return stragglers(others, number);
}

void Mailbox::leave(int rank) {
  const std::lock_guard lock(mutex_);
  left_[static_cast<std::size_t>(rank)] = true;
  changed_.notify_all();
}

}  // namespace dlaunch::internal
