// A Transport between the threads of one process.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "dlaunch/transport.h"
#include "runtime/backend/mailbox.h"

namespace dlaunch::internal {

class ThreadTransport final : public Transport {
 public:
  // REQUIRES: one for each rank on the same mailbox.
  ThreadTransport(std::shared_ptr<Mailbox> mailbox, int rank)
      : mailbox_(std::move(mailbox)), rank_(rank), eager_channel_(*mailbox_, rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return mailbox_->size(); }
  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override {
    return mailbox_->post_send(rank_, peer, slot, bytes);
  }
  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    return mailbox_->post_recv(peer, rank_, slot, bytes);
  }
  EagerChannel& eager_channel() override { return eager_channel_; }
  std::unique_ptr<AnySourceReceive> post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) override {
    return mailbox_->post_recv_any(rank_, slot, bytes);
  }
  void check() override { mailbox_->check(rank_); }
  std::vector<int> departed() override { return mailbox_->departed(); }
  void abort(const std::string& reason) noexcept override { mailbox_->abort(rank_, reason); }
  void abort_for(int peer, const std::string& reason) noexcept override {
    mailbox_->abort(rank_, reason, peer);
  }
  void shutdown(Deadline /*deadline*/) noexcept override { mailbox_->leave(rank_); }
  void enter(std::uint64_t number) noexcept override { mailbox_->enter(rank_, number); }
  ProgressReport query_progress(std::uint64_t number) override {
    return {mailbox_->missing(rank_, number), {}};
  }

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  const int rank_;
  MailboxEagerChannel eager_channel_;
};

}  // namespace dlaunch::internal
