// A transport and its eager channel that forward everything to another: for tests that observe some of it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "dlaunch/transport.h"

namespace dlaunch::test {

class ForwardingChannel : public EagerChannel {
 public:
  explicit ForwardingChannel(EagerChannel& inner) : inner_(inner) {}

  std::byte* compose(int peer, Deadline deadline) override { return inner_.compose(peer, deadline); }
  void send(int peer, std::size_t length) override { inner_.send(peer, length); }
  const std::byte* receive(int peer, Deadline deadline) override { return inner_.receive(peer, deadline); }
  void release(int peer) noexcept override { inner_.release(peer); }

 private:
  EagerChannel& inner_;
};

class ForwardingTransport : public Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override {
    return inner_->post_send(peer, slot, bytes);
  }
  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    return inner_->post_recv(peer, slot, bytes);
  }
  std::unique_ptr<AnySourceReceive> post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) override {
    return inner_->post_recv_any(slot, bytes);
  }
  EagerChannel& eager_channel() override { return inner_->eager_channel(); }
  void check() override { inner_->check(); }
  std::vector<int> departed() override { return inner_->departed(); }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }
  void abort_for(int peer, const std::string& reason) noexcept override { inner_->abort_for(peer, reason); }
  void shutdown(Deadline deadline) noexcept override { inner_->shutdown(deadline); }
  void enter(std::uint64_t number) noexcept override { inner_->enter(number); }
  ProgressReport query_progress(std::uint64_t number) override { return inner_->query_progress(number); }

 private:
  const std::unique_ptr<Transport> inner_;
};

}  // namespace dlaunch::test
