// The store's content and rules: keys, queues, and the clients that wait for them. Pure: requests in, answers
// out; no I/O, no clock, one thread.
//
// The rules are PyTorch's, with three repairs. A wait checks all its keys whenever one of them appears, so it
// ends exactly when all of them exist. COMPARE_SET wakes waits if and only if it creates the key. And a wait
// belongs to its client: the client's next request, or its end, ends the wait everywhere, so no answer is
// sent for a wait that has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "store/protocol/limits.h"
#include "store/protocol/wire.h"

namespace dlaunch::store {

class Table {
 public:
  // One connection's part of the table; its owner keeps it at a fixed address and calls forget() before it is
  // destroyed.
  class Client {
   public:
    Client() = default;
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    [[nodiscard]] bool waits() const { return wait_ != nullptr; }

   private:
    friend class Table;
    struct Wait {
      std::vector<std::string> keys;
      std::size_t at = 0;        // the key where it is queued: a missing one
      std::int64_t barrier = 0;  // not 0: a BARRIER for so many, which the key's number must reach
      std::size_t bytes = 0;
    };
    std::unique_ptr<Wait> wait_;
    std::string offered_;  // the queue whose push ended this client's wait, until the client pops or does
                           // something else
    bool was_offered_ = false;
    std::vector<std::string> watched_;
    bool is_ours_ = false;  // dlaunch's client: it has sent ping_of_dlaunch
  };

  struct WatchNotification {
    Client* client;
    WatchEvent event;
    std::string key;
    SharedBytes old_value;
    SharedBytes new_value;
  };

  // The result of a request. Valid until the next call of the table, and as long as the request's bytes.
  struct Outcome {
    Answer answer;                                 // for the client that asked
    std::vector<Client*> woken;                    // each gets answer_stop_waiting, in this order
    std::vector<WatchNotification> notifications;  // for watching clients, in this order
  };

  explicit Table(const StoreLimits& limits) : limits_(limits) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Applies any request but VALIDATE. A rejected request changes nothing.
  const Outcome& apply(Client& client, const Request& request);

  // The client has gone. Its wait ends; the outcome's `woken` has the client that gets what was offered to
  // it.
  const Outcome& forget(Client& client);

  [[nodiscard]] std::size_t keys() const { return values_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  // As StoreLimits::total_bytes counts: with replaced or deleted values that are still being sent.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_ + *retained_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  template <class T>
  using Map = std::unordered_map<std::string, T, Hash, std::equal_to<>>;
  using Values = Map<SharedBytes>;
  using WaitQueues = Map<std::vector<Client*>>;

  void set(std::string_view key, std::string_view value);
  void append(std::string_view key, std::string_view value);
  void compare_set(const Request& request);
  void add(std::string_view key, std::int64_t amount);
  void answer_ours();
  void multi_get(const Request& request);
  void multi_set(const Request& request);
  void delete_key(std::string_view key);
  void queue_push(std::string_view key, std::string_view value);
  void queue_pop(Client& client, std::string_view key);
  void list_keys();
  void wait(Client& client, const Request& request);
  void barrier(Client& client, std::string_view key, std::int64_t world_size);
  void watch(Client& client, std::string_view key);

  void reply(Answer::Kind kind, std::int64_t number);
  void reply(Answer::Text bytes);
  void refuse(std::string_view why);
  bool refused_as_full();  // false, for its callers to return
  bool may_grow(std::uint64_t by);

  void begin();

  // Stores the value, notifies watchers, and wakes the waits that the key completes.
  void store(Values::iterator at, std::string_view key, std::string_view value);
  // The same without waking. False: rejected.
  bool put(Values::iterator at, std::string_view key, std::string_view value);
  bool replace(SharedBytes& stored, std::string_view key, SharedBytes value);
  void retain_until_sent(SharedBytes& value);
  void notify_watchers(WatchEvent event, std::string_view key, const SharedBytes& old_value,
                       const SharedBytes& new_value);
  [[nodiscard]] bool exists(std::string_view key) const;
  [[nodiscard]] bool all_exist(const std::vector<std::string_view>& keys) const;

  bool find_missing(Client::Wait& wait) const;
  void enqueue(Client& client);
  void dequeue(Client& client);
  void appeared(std::string_view key);
  void end_suppression(std::string_view key);
  [[nodiscard]] std::optional<std::int64_t> sum_at(Values::const_iterator at, std::int64_t amount) const;
  void offer(std::string_view key);
  void end_wait(Client& client);
  void withdraw_offer(Client& client);

  const StoreLimits limits_;
  Values values_;
  Map<std::deque<SharedBytes>> queues_;  // none of them empty
  WaitQueues waiters_;   // by the key where a wait is queued, in order of arrival; none of them empty
  WaitQueues barriers_;  // the same for BARRIER
  WaitQueues watchers_;
  // Keys created by a BARRIER while a WAIT for them was pending: the wait ends only when the barrier is full,
  // or when a client writes the key.
  std::unordered_set<std::string, Hash, std::equal_to<>> suppressed_;
  std::size_t waiting_ = 0;
  std::uint64_t bytes_ = 0;
  // The memory of values that are not in the table, but in answers. The answers may outlive the table.
  const std::shared_ptr<std::uint64_t> retained_ = std::make_shared<std::uint64_t>(0);

  Outcome outcome_;
  SharedBytes popped_;  // the last answer's bytes may point to it
};

}  // namespace dlaunch::store
