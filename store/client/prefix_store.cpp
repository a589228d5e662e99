#include "store/client/prefix_store.h"

#include <utility>

namespace dlaunch::store {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix.append(1, '/'))), store_(std::move(store)) {}

std::string PrefixStore::full(std::string_view key) const { return std::string(prefix_).append(key); }

std::vector<std::string> PrefixStore::full(std::span<const std::string> keys) const {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const std::string& key : keys) names.push_back(full(key));
  return names;
}

void PrefixStore::set(std::string_view key, std::string_view value) { store_->set(full(key), value); }
std::string PrefixStore::get(std::string_view key) { return store_->get(full(key)); }
std::int64_t PrefixStore::add(std::string_view key, std::int64_t amount) {
  return store_->add(full(key), amount);
}
std::string PrefixStore::compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired) {
  return store_->compare_set(full(key), expected, desired);
}
void PrefixStore::wait(std::span<const std::string> keys, Duration timeout) {
  store_->wait(full(keys), timeout);
}
bool PrefixStore::check(std::span<const std::string> keys) { return store_->check(full(keys)); }
std::int64_t PrefixStore::num_keys() { return store_->num_keys(); }
bool PrefixStore::delete_key(std::string_view key) { return store_->delete_key(full(key)); }
void PrefixStore::set_timeout(Duration timeout) { store_->set_timeout(timeout); }
Duration PrefixStore::timeout() const { return store_->timeout(); }
std::vector<std::string> PrefixStore::multi_get(std::span<const std::string> keys) {
  return store_->multi_get(full(keys));
}
void PrefixStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
  store_->multi_set(full(keys), values);
}
void PrefixStore::append(std::string_view key, std::string_view value) { store_->append(full(key), value); }
void PrefixStore::queue_push(std::string_view key, std::string_view value) {
  store_->queue_push(full(key), value);
}
std::optional<std::string> PrefixStore::queue_pop(std::string_view key, bool block) {
  return store_->queue_pop(full(key), block);
}
std::int64_t PrefixStore::queue_len(std::string_view key) { return store_->queue_len(full(key)); }
std::vector<std::string> PrefixStore::list_keys() {
  std::vector<std::string> keys;
  for (const std::string& key : store_->list_keys()) {
    if (key.starts_with(prefix_)) keys.push_back(key.substr(prefix_.size()));
  }
  return keys;
}
void PrefixStore::barrier(std::string_view key, std::int64_t world_size) {
  store_->barrier(full(key), world_size);
}

}  // namespace dlaunch::store
