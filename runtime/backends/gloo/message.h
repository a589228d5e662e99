// Messages over Gloo's unbound buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "runtime/backends/gloo/errands.h"
#include "runtime/backends/gloo/pending.h"
#include "runtime/errors.h"

namespace dlaunch {

class GlooTransport::Message final : public Transfer, private Pending {
 public:
  Message(GlooTransport& owner, int peer, bool is_send, std::byte* data, std::size_t size)
      : Pending(owner),
        peer_(peer),
        is_send_(is_send),
        posting_(std::make_shared<Posting>(owner.context_->createUnboundBuffer(data, size), peer, is_send)) {}

  ~Message() override { posting_->cancel(); }

  void post(std::uint64_t slot) {
    owner_.throw_if_ended();
    posting_->slot = slot;
    owner_.errands_.add(posting_);
  }

  void wait(Deadline deadline) override {
    if (!wait_until(deadline)) throw late_error(peer_, is_send_);
  }

  bool wait_until(Deadline deadline) override {
    set_deadline(deadline);
    enrol();
    std::string gloo_says;
    bool done = false;
    try {
      // The order to end may be a late one, to a wait before.
      do {
        done = is_send_ ? posting_->buffer->waitSend(never) : posting_->buffer->waitRecv(never);
      } while (!done && !is_late() && posting_->refused().empty() && !owner_.has_ended());
    } catch (const ::gloo::Exception& e) {
      gloo_says = e.what();
    }
    resign();
    if (done) return true;
    if (gloo_says.empty()) gloo_says = posting_->refused();
    if (!gloo_says.empty()) owner_.explain(peer_, gloo_says);
    owner_.throw_if_ended();
    return false;
  }

  void end_wait() override { posting_->end_wait(); }

 private:
  // What Gloo's thread is to do; may outlive the message.
  struct Posting final : Errands::Errand {
    Posting(Buffer its_buffer, int its_peer, bool sends)
        : buffer(std::move(its_buffer)), peer(its_peer), is_send(sends) {}

    void run() noexcept override {
      const std::lock_guard lock(mutex);
      if (!buffer) return;
      try {
        if (is_send) {
          buffer->send(peer, slot);
        } else {
          buffer->recv(peer, slot);
        }
      } catch (const std::exception& e) {
        refusal = e.what();
        end_wait();
      }
    }

    // Nothing touches the message's memory any more.
    void cancel() {
      const std::lock_guard lock(mutex);
      buffer.reset();
    }

    void end_wait() {
      if (is_send) {
        buffer->abortWaitSend();
      } else {
        buffer->abortWaitRecv();
      }
    }

    // Why Gloo did not take it; empty if it did.
    std::string refused() {
      const std::lock_guard lock(mutex);
      return refusal;
    }

    Buffer buffer;  // reset under the mutex, by the message
    const int peer;
    const bool is_send;
    std::uint64_t slot = 0;
    std::mutex mutex;
    std::string refusal;  // protected by mutex
  };

  const int peer_;
  const bool is_send_;
  const std::shared_ptr<Posting> posting_;
};

class GlooTransport::AnyMessage final : public Inbox, private Pending {
 public:
  AnyMessage(GlooTransport& owner, std::uint64_t slot, std::span<std::byte> bytes)
      : Pending(owner), slot_(slot), bytes_(bytes) {
    post();
  }

  Arrival wait(Deadline deadline) override {
    set_deadline(deadline);
    enrol();
    // Only now: from here on a departure ends the wait.
    if (departure()) buffer_->abortWaitRecv();
    bool spoilt = false;
    const Arrival arrival = wait_enrolled(spoilt);
    resign();
    if (arrival.event == Event::message) return arrival;
    owner_.check();
    if (spoilt) post();
    const std::optional<int> gone = departure();
    if (!gone) return {};
    ++told_;
    return {Event::left, *gone};
  }

  void wake() noexcept override {
    const std::lock_guard lock(owner_.mutex_);
    buffer_->abortWaitRecv();
  }
  void end_wait() override { buffer_->abortWaitRecv(); }
  void hear_of_departure() override { buffer_->abortWaitRecv(); }
  [[nodiscard]] bool is_idle() const override { return !has_deadline(); }

 private:
  // Gloo refuses when a connection is lost, a moment before it tells so to those who wait on it: that moment
  // is waited for, since they know why.
  void post() {
    const Deadline limit = deadline_after(std::chrono::seconds(1));
    for (;;) {
      owner_.check();
      const std::vector<int> others = owner_.present_peers();
      Buffer fresh = owner_.context_->createUnboundBuffer(bytes_.data(), bytes_.size());
      bytes_.front() = std::byte{0};
      std::unique_lock lock(owner_.mutex_, std::defer_lock);
      try {
        if (!others.empty()) fresh->recv(others, slot_);
        lock.lock();  // for wake()
        buffer_.swap(fresh);
        return;
      } catch (const ::gloo::Exception& e) {
        if (has_passed(limit)) {
          throw DistNetworkError("no message can be received: " + without_place(e.what()));
        }
      }
      lock.lock();
      owner_.changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
  }

  // A message, or nothing when the wait was ended. `spoilt`: nothing will come into this buffer any more,
  // since who was to fill it has gone.
  Arrival wait_enrolled(bool& spoilt) {
    int sender = -1;
    try {
      // Gloo looks at the order to end first, and cannot be asked whether a message is there. Its first byte
      // can: what has begun to come ends soon, and what a departed rank has sent is here.
      while (!buffer_->waitRecv(&sender, never)) {
        if (std::atomic_ref(bytes_.front()).load(std::memory_order_relaxed) == std::byte{0}) return {};
        if (owner_.has_ended()) return {};
      }
    } catch (const ::gloo::Exception&) {
      spoilt = true;  // why, the owner knows
      return {};
    }
    return {Event::message, sender};
  }

  std::optional<int> departure() {
    const std::lock_guard lock(owner_.mutex_);
    if (told_ == owner_.left_.size()) return std::nullopt;
    return owner_.left_[told_];
  }

  const std::uint64_t slot_;
  const std::span<std::byte> bytes_;
  Buffer buffer_;         // replaced under owner_.mutex_
  std::size_t told_ = 0;  // of owner_.left_
};

}  // namespace dlaunch
