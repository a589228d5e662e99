#include "store/client/hash_store.h"

#include <algorithm>
#include <utility>

#include "store/client/error_text.h"
#include "store/client/steady_time.h"
#include "store/protocol/decimal.h"

namespace dlaunch::store {
void HashStore::set(std::string_view key, std::string_view value) {
  const Lock lock(mutex_);
  values_[std::string(key)] = value;
  changed_.notify_all();
}

std::string HashStore::get(std::string_view key) {
  const std::string name(key);
  return multi_get({&name, 1}).front();
}

std::int64_t HashStore::add(std::string_view key, std::int64_t amount) {
  const Lock lock(mutex_);
  return add_locked(key, amount);
}

std::int64_t HashStore::add_locked(std::string_view key, std::int64_t amount) {
  const auto at = values_.find(key);
  const auto before = at == values_.end() ? std::int64_t{0} : leading_decimal(at->second);
  if (!before)
    throw StoreError({ErrorKind::invalid, "cannot add to key", quoted(key), "its value is not a number", ""});
  const std::int64_t sum = wrapping_add(*before, amount);
  values_[std::string(key)] = std::to_string(sum);
  changed_.notify_all();
  return sum;
}

std::string HashStore::compare_set(std::string_view key, std::string_view expected,
                                   std::string_view desired) {
  const Lock lock(mutex_);
  const auto at = values_.find(key);
  if (at == values_.end() && !expected.empty()) return std::string(expected);
  if (at != values_.end() && at->second != expected) return at->second;
  values_[std::string(key)] = desired;
  changed_.notify_all();
  return std::string(desired);
}

void HashStore::wait(std::span<const std::string> keys, Duration timeout) {
  Lock lock(mutex_);
  await(
      lock, timeout, [&] { return all_exist(keys); }, describe_keys(keys));
}

bool HashStore::check(std::span<const std::string> keys) {
  const Lock lock(mutex_);
  return all_exist(keys);
}

std::int64_t HashStore::num_keys() {
  const Lock lock(mutex_);
  return static_cast<std::int64_t>(values_.size());
}

bool HashStore::delete_key(std::string_view key) {
  const Lock lock(mutex_);
  const auto at = values_.find(key);
  if (at == values_.end()) return false;
  values_.erase(at);
  return true;
}

void HashStore::set_timeout(Duration timeout) {
  const Lock lock(mutex_);
  timeout_ = timeout;
}

Duration HashStore::timeout() const {
  const Lock lock(mutex_);
  return timeout_;
}

std::vector<std::string> HashStore::multi_get(std::span<const std::string> keys) {
  Lock lock(mutex_);
  // If queues of these names exist, a wait ends, but there is no value to get.
  const auto have_values = [&] {
    return std::all_of(keys.begin(), keys.end(),
                       [&](const std::string& key) { return values_.contains(key); });
  };
  await(lock, timeout_, have_values, describe_keys(keys));
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) values.push_back(values_.at(key));
  return values;
}

void HashStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
  const Lock lock(mutex_);
  for (std::size_t i = 0; i < keys.size(); ++i) values_[keys[i]] = values[i];
  changed_.notify_all();
}

void HashStore::append(std::string_view key, std::string_view value) {
  const Lock lock(mutex_);
  values_[std::string(key)].append(value);
  changed_.notify_all();
}

void HashStore::queue_push(std::string_view key, std::string_view value) {
  const Lock lock(mutex_);
  queues_[std::string(key)].emplace_back(value);
  changed_.notify_all();
}

std::optional<std::string> HashStore::queue_pop(std::string_view key, bool block) {
  Lock lock(mutex_);
  if (block)
    await(
        lock, timeout_, [&] { return queues_.contains(key); }, "queue " + quoted(key));
  const auto at = queues_.find(key);
  if (at == queues_.end()) return std::nullopt;
  std::string value = std::move(at->second.front());
  at->second.pop_front();
  if (at->second.empty()) queues_.erase(at);
  return value;
}

std::int64_t HashStore::queue_len(std::string_view key) {
  const Lock lock(mutex_);
  const auto at = queues_.find(key);
  return at == queues_.end() ? 0 : static_cast<std::int64_t>(at->second.size());
}

std::vector<std::string> HashStore::list_keys() {
  const Lock lock(mutex_);
  std::vector<std::string> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

void HashStore::barrier(std::string_view key, std::int64_t world_size) {
  Lock lock(mutex_);
  add_locked(key, 1);
  const auto complete = [&] {
    const auto at = values_.find(key);
    return at != values_.end() && leading_decimal(at->second).value_or(0) >= world_size;
  };
  await(lock, timeout_, complete, "all " + std::to_string(world_size) + " at barrier " + quoted(key));
}

bool HashStore::exists(const std::string& key) const {
  return values_.contains(key) || queues_.contains(key);
}

bool HashStore::all_exist(std::span<const std::string> keys) const {
  return std::all_of(keys.begin(), keys.end(), [this](const std::string& key) { return exists(key); });
}

void HashStore::await(Lock& lock, Duration timeout, const Condition& condition, const std::string& for_what) {
  const auto until = std::chrono::steady_clock::now() + std::min(timeout, longest_timeout);
  if (!changed_.wait_until(lock, until, condition)) {
    throw StoreError(timeout_error("store in this process", timeout, for_what));
  }
}

}  // namespace dlaunch::store
