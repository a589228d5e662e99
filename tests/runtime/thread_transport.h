// Ranks as threads of one process, for everything that needs no network to be tested.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dlaunch/transport.h"
#include "runtime/deadline.h"
#include "runtime/mailbox.h"

namespace dlaunch::test {

// Long enough for the slowest machine; a test that needs it has failed.
inline Deadline soon() { return deadline_after(std::chrono::seconds(60)); }

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Mailbox> mailbox, int rank) : mailbox_(std::move(mailbox)), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return mailbox_->size(); }
  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override {
    return mailbox_->post_send(rank_, peer, slot, bytes);
  }
  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    return mailbox_->post_recv(peer, rank_, slot, bytes);
  }
  std::unique_ptr<Inbox> post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) override {
    return mailbox_->post_recv_any(rank_, slot, bytes);
  }
  void check() override { mailbox_->check(rank_); }
  void abort(const std::string& reason) noexcept override { mailbox_->abort(rank_, reason); }
  void shutdown(Deadline /*deadline*/) noexcept override { mailbox_->leave(rank_); }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  int rank_;
};

// Runs `body(rank)` on `size` threads and joins them. What a body throws is returned: null where it did not.
inline std::vector<std::exception_ptr> on_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// `body` gets a transport that connects it with the others.
inline std::vector<std::exception_ptr> on_ranks(int size,
                                                const std::function<void(std::unique_ptr<Transport>)>& body) {
  const auto mailbox = std::make_shared<Mailbox>(size);
  return on_threads(size, [&](int rank) { body(std::make_unique<ThreadTransport>(mailbox, rank)); });
}

}  // namespace dlaunch::test
