#include "store/client/store.h"

namespace dlaunch::store {
namespace {

[[noreturn]] void lacks(const char* what) {
  throw StoreError({ErrorKind::refused, std::string("this kind of store has no ") + what, "", "", ""});
}

}  // namespace

std::vector<std::string> Store::multi_get(std::span<const std::string> keys) {
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) values.push_back(get(key));
  return values;
}

void Store::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
  for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values[i]);
}

void Store::barrier(std::string_view key, std::int64_t world_size) {
  const std::string last_member = std::string(key) + "/last_member";
  if (add(std::string(key) + "/num_members", 1) == world_size) set(last_member, "1");
  wait({&last_member, 1});
}

void Store::append(std::string_view /*key*/, std::string_view /*value*/) { lacks("append"); }
void Store::queue_push(std::string_view /*key*/, std::string_view /*value*/) { lacks("queues"); }
std::optional<std::string> Store::queue_pop(std::string_view /*key*/, bool /*block*/) { lacks("queues"); }
std::int64_t Store::queue_len(std::string_view /*key*/) { lacks("queues"); }
std::vector<std::string> Store::list_keys() { lacks("list of keys"); }

}  // namespace dlaunch::store
