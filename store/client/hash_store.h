// A store inside one process, for its threads: a map, a mutex, a condition. Never throws a network error.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "store/client/store.h"

namespace dlaunch::store {

// Calls of several threads run at the same time: while one waits the others continue.
class HashStore final : public Store {
 public:
  using Store::wait;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  void wait(std::span<const std::string> keys, Duration timeout) override;
  bool check(std::span<const std::string> keys) override;
  std::int64_t num_keys() override;
  bool delete_key(std::string_view key) override;
  void set_timeout(Duration timeout) override;
  [[nodiscard]] Duration timeout() const override;
  std::vector<std::string> multi_get(std::span<const std::string> keys) override;
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override;
  void append(std::string_view key, std::string_view value) override;
  void queue_push(std::string_view key, std::string_view value) override;
  std::optional<std::string> queue_pop(std::string_view key, bool block) override;
  std::int64_t queue_len(std::string_view key) override;
  std::vector<std::string> list_keys() override;
  void barrier(std::string_view key, std::int64_t world_size) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Condition = std::function<bool()>;

  [[nodiscard]] bool exists(const std::string& key) const;
  [[nodiscard]] bool all_exist(std::span<const std::string> keys) const;
  void await(Lock& lock, Duration timeout, const Condition& condition, const std::string& for_what);
  std::int64_t add_locked(std::string_view key, std::int64_t amount);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_:
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::deque<std::string>, std::less<>> queues_;  // none of them empty
  Duration timeout_ = std::chrono::seconds(300);
};

}  // namespace dlaunch::store
