// The stores in C.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/store.h"
#include "runtime/api/c_api.h"

namespace {

using namespace dlaunch::internal::c;
using dlaunch::DistError;
using dlaunch::KeyValueStore;
using dlaunch::TcpKeyValueStore;
using std::chrono::milliseconds;

// The results of the thread's latest call that returns several texts.
thread_local std::vector<std::string> last_texts;
thread_local std::vector<const char*> last_pointers;

KeyValueStore& store_of(const dlaunch_store* store) { return *required(store, "the store").store; }

// Null: another kind of store.
const TcpKeyValueStore* tcp_store_of(const dlaunch_store* store) {
  return dynamic_cast<const TcpKeyValueStore*>(&store_of(store));
}

std::string key_of(const char* key) { return &required(key, "the key"); }

std::string value_of(const void* value, std::size_t size) {
  if (size == 0) return {};
  (void)required(static_cast<const char*>(value), "the value");
  return {static_cast<const char*>(value), size};
}

std::vector<std::string> keys_of(const char* const* keys, std::size_t count) {
  if (count > 0) (void)required(keys, "the list of keys");
  std::vector<std::string> names;
  names.reserve(count);
  for (std::size_t i = 0; i < count; ++i) names.push_back(key_of(keys[i]));
  return names;
}

milliseconds length_of(std::int64_t timeout_ms) {
  return timeout_of(timeout_ms).value_or(dlaunch::default_store_timeout);
}

template <class T>
T& place(T* pointer, const char* what) {
  (void)required(pointer, what);
  return *pointer;
}

// Either place may be NULL.
void give_value(std::string text, const char** value, std::size_t* size) {
  if (size) *size = text.size();
  const char* const kept = keep_text(std::move(text));
  if (value) *value = kept;
}

template <class Make>
int make_store(dlaunch_store** store, const Make& make) noexcept {
  return guarded([&] {
    dlaunch_store*& into = place(store, "the place for the store");
    into = nullptr;
    into = std::make_unique<dlaunch_store>(dlaunch_store{make()}).release();
  });
}

}  // namespace

int dlaunch_make_tcp_store(const char* host, uint16_t port, const dlaunch_tcp_store_options* given,
                           dlaunch_store** store) {
  return make_store(store, [&] {
    dlaunch::TcpKeyValueStoreOptions options;
    if (given) {
      options.timeout = length_of(given->timeout_ms);
      if (given->world_size != 0) options.world_size = given->world_size;
      options.is_master = given->is_master != 0;
      options.wait_for_workers = given->do_not_wait_for_workers == 0;
      options.multi_tenant = given->multi_tenant != 0;
      if (given->master_listen_fd) options.master_listen_fd = *given->master_listen_fd;
    }
    return dlaunch::make_tcp_store(&required(host, "the host"), port, options);
  });
}
int dlaunch_make_file_store(const char* path, int world_size, int64_t timeout_ms, dlaunch_store** store) {
  return make_store(store, [&] {
    return dlaunch::make_file_store(&required(path, "the path"), world_size, length_of(timeout_ms));
  });
}
int dlaunch_make_hash_store(int64_t timeout_ms, dlaunch_store** store) {
  return make_store(store, [&] { return dlaunch::make_hash_store(length_of(timeout_ms)); });
}
int dlaunch_make_prefix_store(const char* prefix, const dlaunch_store* store, dlaunch_store** part) {
  return make_store(part, [&] {
    return dlaunch::make_prefix_store(&required(prefix, "the prefix"), required(store, "the store").store);
  });
}
void dlaunch_store_free(dlaunch_store* store) {
  const std::unique_ptr<dlaunch_store> freed(store);
  (void)guarded([&] {
    if (freed) freed->store.reset();
  });
}

int dlaunch_store_set(const dlaunch_store* store, const char* key, const void* value, size_t size) {
  return guarded([&] { store_of(store).set(key_of(key), value_of(value, size)); });
}
int dlaunch_store_get(const dlaunch_store* store, const char* key, const char** value, size_t* size) {
  return guarded([&] { give_value(store_of(store).get(key_of(key)), value, size); });
}
int dlaunch_store_add(const dlaunch_store* store, const char* key, int64_t amount, int64_t* sum) {
  return guarded([&] {
    const std::int64_t now = store_of(store).add(key_of(key), amount);
    if (sum) *sum = now;
  });
}
int dlaunch_store_compare_set(const dlaunch_store* store, const char* key, const void* expected,
                              size_t expected_size, const void* desired, size_t desired_size,
                              const char** value, size_t* size) {
  return guarded([&] {
    give_value(store_of(store).compare_set(key_of(key), value_of(expected, expected_size),
                                           value_of(desired, desired_size)),
               value, size);
  });
}
int dlaunch_store_wait(const dlaunch_store* store, const char* const* keys, size_t count,
                       int64_t timeout_ms) {
  return guarded([&] {
    KeyValueStore& in = store_of(store);
    in.wait(keys_of(keys, count), timeout_of(timeout_ms).value_or(in.timeout()));
  });
}
int dlaunch_store_wait_for(const dlaunch_store* store, const char* const* keys, size_t count,
                           int64_t timeout_ms, int* exist) {
  return guarded([&] {
    int& answer = place(exist, "the place for the answer");
    answer = store_of(store).wait_for(keys_of(keys, count), milliseconds(timeout_ms)) ? 1 : 0;
  });
}
int dlaunch_store_check(const dlaunch_store* store, const char* const* keys, size_t count, int* exist) {
  return guarded([&] {
    int& answer = place(exist, "the place for the answer");
    answer = store_of(store).check(keys_of(keys, count)) ? 1 : 0;
  });
}
int dlaunch_store_delete_key(const dlaunch_store* store, const char* key, int* existed) {
  return guarded([&] {
    const bool did = store_of(store).delete_key(key_of(key));
    if (existed) *existed = did ? 1 : 0;
  });
}
int dlaunch_store_num_keys(const dlaunch_store* store, int64_t* number) {
  return guarded([&] { place(number, "the place for the number") = store_of(store).num_keys(); });
}
int dlaunch_store_list_keys(const dlaunch_store* store, const char* const** keys, size_t* count) {
  return guarded([&] {
    const char* const*& list = place(keys, "the place for the list");
    std::size_t& length = place(count, "the place for its length");
    last_texts = store_of(store).list_keys();
    last_pointers.clear();
    for (const std::string& key : last_texts) last_pointers.push_back(key.c_str());
    list = last_pointers.data();
    length = last_pointers.size();
  });
}
int dlaunch_store_append(const dlaunch_store* store, const char* key, const void* value, size_t size) {
  return guarded([&] { store_of(store).append(key_of(key), value_of(value, size)); });
}
int dlaunch_store_multi_get(const dlaunch_store* store, const char* const* keys, size_t count,
                            const char** values, size_t* sizes) {
  return guarded([&] {
    if (count > 0) {
      (void)required(values, "the list of values");
      (void)required(sizes, "the list of sizes");
    }
    last_texts = store_of(store).multi_get(keys_of(keys, count));
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = last_texts[i].c_str();
      sizes[i] = last_texts[i].size();
    }
  });
}
int dlaunch_store_multi_set(const dlaunch_store* store, const char* const* keys, size_t count,
                            const void* const* values, const size_t* sizes) {
  return guarded([&] {
    if (count > 0) {
      (void)required(values, "the list of values");
      (void)required(sizes, "the list of sizes");
    }
    std::vector<std::string> texts;
    texts.reserve(count);
    for (std::size_t i = 0; i < count; ++i) texts.push_back(value_of(values[i], sizes[i]));
    store_of(store).multi_set(keys_of(keys, count), texts);
  });
}
int dlaunch_store_queue_push(const dlaunch_store* store, const char* key, const void* value, size_t size) {
  return guarded([&] { store_of(store).queue_push(key_of(key), value_of(value, size)); });
}
int dlaunch_store_queue_pop(const dlaunch_store* store, const char* key, int block, const char** value,
                            size_t* size) {
  return guarded([&] {
    const char*& into = place(value, "the place for the value");
    std::optional<std::string> popped = store_of(store).queue_pop(key_of(key), block != 0);
    if (popped) return give_value(*std::move(popped), value, size);
    into = nullptr;
    if (size) *size = 0;
  });
}
int dlaunch_store_queue_len(const dlaunch_store* store, const char* key, int64_t* length) {
  return guarded([&] { place(length, "the place for the length") = store_of(store).queue_len(key_of(key)); });
}
int dlaunch_store_barrier(const dlaunch_store* store, const char* key, int64_t world_size) {
  return guarded([&] { store_of(store).barrier(key_of(key), world_size); });
}
int dlaunch_store_set_timeout(const dlaunch_store* store, int64_t timeout_ms) {
  return guarded([&] { store_of(store).set_timeout(milliseconds(timeout_ms)); });
}
int64_t dlaunch_store_timeout(const dlaunch_store* store) {
  return answer(std::int64_t{-1}, [&] { return std::int64_t{store_of(store).timeout().count()}; });
}
const char* dlaunch_store_host(const dlaunch_store* store) {
  return text_answer([&] {
    const TcpKeyValueStore* const tcp = tcp_store_of(store);
    if (!tcp) throw DistError("a store that is not a TCP store has no host");
    return tcp->host();
  });
}
int dlaunch_store_port(const dlaunch_store* store) {
  return answer(-1, [&] {
    const TcpKeyValueStore* const tcp = tcp_store_of(store);
    return tcp ? int{tcp->port()} : -1;
  });
}
int dlaunch_store_is_serving(const dlaunch_store* store) {
  return answer(0, [&] {
    const TcpKeyValueStore* const tcp = tcp_store_of(store);
    return tcp && tcp->is_serving() ? 1 : 0;
  });
}
