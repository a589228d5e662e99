// Messages between the ranks of one process: what a Transport does, without a network.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "dlaunch/transport.h"

namespace dlaunch::internal {

// Shared by its ranks, each of which may be a thread. A send completes when its receive is posted. Outlives
// its transfers.
class Mailbox {
 public:
  explicit Mailbox(int size);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(left_.size()); }

  // As Transport's, with the ranks as arguments.
  std::unique_ptr<Transfer> post_send(int from, int to, std::uint64_t slot, std::span<const std::byte> bytes);
  std::unique_ptr<Transfer> post_recv(int from, int to, std::uint64_t slot, std::span<std::byte> bytes);

  std::unique_ptr<AnySourceReceive> post_recv_any(int to, std::uint64_t slot, std::span<std::byte> bytes);
  void check(int rank);
  [[nodiscard]] std::vector<int> departed();

  // As EagerChannel's.
  struct Route {
    int from;
    int to;
    bool operator<(const Route& other) const { return std::tie(from, to) < std::tie(other.from, other.to); }
  };
  [[nodiscard]] bool await_room(const Route& route, Deadline deadline);
  void send(const Route& route, std::span<const std::byte> bytes);
  const std::byte* receive(const Route& route, Deadline deadline);
  void release(const Route& route) noexcept;

  // From now on every wait throws: on `rank` with this reason, on the others with the rank's name, too.
  // `blamed`: the rank that is the cause, the same for all; -1: the rank that calls.
  void abort(int rank, const std::string& reason, int blamed = -1);
  // As Transport's.
  void enter(int rank, std::uint64_t number) noexcept;
  [[nodiscard]] std::vector<int> missing(int asking, std::uint64_t number);
  // From now on waits for messages from or to `rank` throw.
  void leave(int rank);

 private:
  struct PostedMessage;
  class AnySourceMessage;
  struct Queues {
    std::list<PostedMessage*> sends;
    std::list<PostedMessage*> receives;
  };
  using Address = std::tuple<int, int, std::uint64_t>;  // from, to, slot

  std::unique_ptr<Transfer> post(std::unique_ptr<PostedMessage> posted);
  void match(PostedMessage& send, PostedMessage& receive);
  void take(PostedMessage& send, AnySourceMessage& receive);
  template <class Condition>
  bool wait_for(const Route& route, int rank, Deadline deadline, const Condition& condition);
  void throw_if_aborted(int rank, int peer) const;
  void throw_if_ended(int rank, int peer) const;

  std::vector<std::atomic<std::uint64_t>> entered_;  // the latest operation, by rank

  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  std::map<Address, Queues> queues_;
  std::map<std::pair<int, std::uint64_t>, AnySourceMessage*> open_;  // waiting for any rank: rank, slot
  std::map<Route, std::deque<std::vector<std::byte>>> eager_messages_;
  std::vector<bool> left_;
  int aborter_ = -1;
  int blamed_ = -1;
  std::string reason_;
};

// One rank's end of an eager channel.
class MailboxEagerChannel final : public EagerChannel {
 public:
  // REQUIRES: `mailbox` outlives this object.
  MailboxEagerChannel(Mailbox& mailbox, int rank) : box_(mailbox), rank_(rank) {}

  std::byte* compose(int peer, Deadline deadline) override {
    return box_.await_room(to(peer), deadline) ? draft_.data() : nullptr;
  }
  void send(int peer, std::size_t length) override { box_.send(to(peer), std::span(draft_).first(length)); }
  const std::byte* receive(int peer, Deadline deadline) override {
    return box_.receive(from(peer), deadline);
  }
  void release(int peer) noexcept override { box_.release(from(peer)); }

 private:
  [[nodiscard]] Mailbox::Route to(int peer) const { return {rank_, peer}; }
  [[nodiscard]] Mailbox::Route from(int peer) const { return {peer, rank_}; }

  Mailbox& box_;
  const int rank_;
  std::vector<std::byte> draft_ = std::vector<std::byte>(max_message_size);
};

}  // namespace dlaunch::internal
