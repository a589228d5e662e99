// Messages that go from memory to memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "runtime/backends/gloo/tcp_transport.h"
#include "runtime/backends/gloo/tcp_wait.h"
#include "runtime/base/errors.h"

namespace dlaunch::internal {

// For empty messages, whose memory may be null.
inline std::byte no_bytes{0};

class TcpTransport::SentMessage final : public Transfer {
 public:
  SentMessage(TcpTransport& owner, int peer, std::shared_ptr<Outgoing> message)
      : owner_(owner), peer_(peer), message_(std::move(message)) {}

  ~SentMessage() override {
    EndpointLock lock(owner_.endpoint_->mutex());
    if (message_->done) return;
    message_->memory = nullptr;
    if (!message_->under_way) owner_.peer_of(peer_).slots.withdraw(message_->head.number, message_);
    if (message_->is_read) owner_.endpoint_->await_memory(lock, message_->is_read);
  }

  void wait(Deadline deadline) override {
    if (!wait_until(deadline)) throw late_error(peer_, true);
  }

  bool wait_until(Deadline deadline) override {
    EndpointLock lock(owner_.endpoint_->mutex());
    const Peer& peer = owner_.peer_of(peer_);
    // A message under way arrives, even at a rank that has left.
    const auto will_not_come = [&] { return peer.lost || (peer.left && !message_->under_way); };
    const Wait wait(owner_, lock, message_->wakeup, deadline,
                    [&] { return message_->done || will_not_come(); });
    if (message_->done) return true;
    owner_.throw_if_ended(lock);
    if (will_not_come()) owner_.throw_left(peer_);
    return false;
  }

 private:
  TcpTransport& owner_;
  const int peer_;
  const std::shared_ptr<Outgoing> message_;
};

class TcpTransport::ReceivedMessage final : public Transfer {
 public:
  ReceivedMessage(TcpTransport& owner, int peer, std::shared_ptr<Incoming> message)
      : owner_(owner), peer_(peer), message_(std::move(message)) {}

  ~ReceivedMessage() override { owner_.reclaim(*message_); }

  void wait(Deadline deadline) override {
    if (!wait_until(deadline)) throw late_error(peer_, false);
  }

  bool wait_until(Deadline deadline) override {
    EndpointLock lock(owner_.endpoint_->mutex());
    const Peer& peer = owner_.peer_of(peer_);
    const Wait wait(owner_, lock, message_->wakeup, deadline, [&] { return message_->done || peer.left; });
    if (message_->done) return true;
    owner_.throw_if_ended(lock);
    if (peer.left) owner_.throw_left(peer_);
    return false;
  }

 private:
  TcpTransport& owner_;
  const int peer_;
  const std::shared_ptr<Incoming> message_;
};

class TcpTransport::AnySourceMessage final : public AnySourceReceive {
 public:
  // With the endpoint's mutex held.
  AnySourceMessage(TcpTransport& owner, std::uint64_t slot, std::span<std::byte> bytes)
      : owner_(owner), slot_(slot), bytes_(bytes) {}

  ~AnySourceMessage() override {
    {
      const EndpointLock lock(owner_.endpoint_->mutex());
      AnySlot& here = owner_.any_slots_[slot_];
      if (here.open == this) here.open = nullptr;
    }
    if (message_) owner_.reclaim(*message_);
  }

  Arrival wait(Deadline deadline) override {
    EndpointLock lock(owner_.endpoint_->mutex());
    const auto has_come = [this] { return message_ && message_->done; };
    const auto has_left = [this] { return reported_ < owner_.left_.size(); };
    const Wait wait(owner_, lock, wakeup_, deadline, [&] { return has_come() || has_left() || woken_; });
    if (has_come()) return {Event::message, sender_};
    owner_.throw_if_ended(lock);
    if (has_left()) return {Event::left, owner_.left_[reported_++]};
    woken_ = false;
    return {};
  }

  void wake() noexcept override {
    const EndpointLock lock(owner_.endpoint_->mutex());
    woken_ = true;
    wakeup_.wake();
  }

  bool retract() noexcept override {
    const EndpointLock lock(owner_.endpoint_->mutex());
    if (!is_free()) return false;
    AnySlot& here = owner_.any_slots_[slot_];
    if (here.open == this) here.open = nullptr;
    return true;
  }

  // The rank whose message it takes; none: not known yet, or that rank has left without a send. REQUIRES, as
  // the members below: the endpoint's mutex is held.
  [[nodiscard]] bool is_free() const {
    return !message_ || (!message_->done && owner_.peer_of(sender_).left);
  }
  // The receive to post for that rank.
  std::shared_ptr<Incoming> choose(int sender) {
    sender_ = sender;
    message_ = std::make_shared<Incoming>();
    message_->memory = bytes_.data();
    message_->size = bytes_.size();
    return message_;
  }
  void wake_if_done() {
    if (message_ && message_->done) wakeup_.wake();
  }

 private:
  TcpTransport& owner_;
  const std::uint64_t slot_;
  const std::span<std::byte> bytes_;
  Wakeup wakeup_;
  // protected by the endpoint's mutex
  int sender_ = -1;
  std::shared_ptr<Incoming> message_;
  bool woken_ = false;
  std::size_t reported_ = 0;  // ranks of owner_.left_
};

}  // namespace dlaunch::internal
