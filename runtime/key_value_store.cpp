#include "runtime/key_value_store.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>

#include "runtime/deadline.h"
#include "runtime/registry.h"
#include "runtime/store_server/store_server.h"
#include "store/file_store.h"
#include "store/hash_store.h"
#include "store/job_key.h"
#include "store/prefix_store.h"
#include "store/tcp_store.h"
#include "store/tls/tls_client.h"

namespace dlaunch {
inline namespace v1 {

KeyValueStore::~KeyValueStore() = default;

}  // namespace v1

DistStoreError store_error(const StoreError& error) { return DistStoreError(error.what()); }

namespace {

template <class Call>
auto attempt(const Call& call) {
  try {
    return call();
  } catch (const StoreError& e) {
    throw store_error(e);
  }
}

// One of our stores as programs see it.
class OwnStore final : public KeyValueStore {
 public:
  explicit OwnStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override {
    attempt([&] { store_->set(key, value); });
  }
  std::string get(const std::string& key) override {
    return attempt([&] { return store_->get(key); });
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return attempt([&] { return store_->add(key, amount); });
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    return attempt([&] { return store_->compare_set(key, expected, desired); });
  }
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    try {
      store_->wait(keys, timeout);
      return true;
    } catch (const StoreError& e) {
      if (e.error().kind == ErrorKind::timeout) return false;
      throw store_error(e);
    }
  }
  bool delete_key(const std::string& key) override {
    return attempt([&] { return store_->delete_key(key); });
  }

  [[nodiscard]] const std::shared_ptr<Store>& inner() const { return store_; }

 private:
  const std::shared_ptr<Store> store_;
};

// A program's store as we see it. Its errors come through as they are.
class ForeignStore final : public Store {
 public:
  explicit ForeignStore(std::shared_ptr<KeyValueStore> store) : store_(std::move(store)) {}

  using Store::wait;
  void set(std::string_view key, std::string_view value) override {
    store_->set(std::string(key), std::string(value));
  }
  std::string get(std::string_view key) override {
    const std::string name(key);
    wait({&name, 1}, timeout_);
    return store_->get(name);
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    return store_->add(std::string(key), amount);
  }
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    return store_->compare_set(std::string(key), std::string(expected), std::string(desired));
  }
  void wait(std::span<const std::string> keys, Duration timeout) override {
    const auto length = std::chrono::ceil<std::chrono::milliseconds>(std::max(timeout, Duration(0)));
    if (store_->wait(keys, length)) return;
    throw StoreError({ErrorKind::timeout, "keys did not come", keys.empty() ? "" : keys.front(), "", ""});
  }
  bool check(std::span<const std::string> keys) override {
    return store_->wait(keys, std::chrono::milliseconds(0));
  }
  std::int64_t num_keys() override {
    throw StoreError({ErrorKind::refused, "the program's store does not count its keys", "", "", ""});
  }
  bool delete_key(std::string_view key) override { return store_->delete_key(std::string(key)); }
  void set_timeout(Duration timeout) override { timeout_ = timeout; }
  [[nodiscard]] Duration timeout() const override { return timeout_; }

 private:
  const std::shared_ptr<KeyValueStore> store_;
  Duration timeout_ = std::chrono::seconds(300);
};

std::shared_ptr<KeyValueStore> as_public(std::shared_ptr<Store> store) {
  return std::make_shared<OwnStore>(std::move(store));
}

// The symbol of a module, which then stays loaded.
void* find_in_module(const std::string& file, const char* name, const std::string& what_fails) {
  std::string problem = "it is in none of the backends' folders";
  for (const std::string& folder : backend_folders()) {
    std::string path = folder;
    path.append("/").append(file);
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* const why = dlerror();
      if (why) problem = why;
      continue;
    }
    if (void* const symbol = dlsym(library, name)) return symbol;
    problem = path + " does not export " + name;
  }
  throw DistStoreError(what_fails + ": the module " + file + " cannot be loaded: " + problem);
}

StoreServerStart find_server_module() {
  return reinterpret_cast<StoreServerStart>(
      find_in_module("store_server.so", store_server_symbol, "the store cannot be served"));
}

TlsClientSession find_tls_module() {
  return reinterpret_cast<TlsClientSession>(
      find_in_module("tls.so", tls_client_symbol, "the job's store is encrypted (--tls)"));
}

}  // namespace

std::shared_ptr<Store> inner_store(const std::shared_ptr<KeyValueStore>& store) {
  if (const auto own = std::dynamic_pointer_cast<OwnStore>(store)) return own->inner();
  return std::make_shared<ForeignStore>(store);
}

std::shared_ptr<Store> connect_store(const Address& server, Deadline deadline) {
  try {
    TcpStoreOptions options;
    options.server = server;
    const JobKey key = job_store_key(server);
    options.key = key.key;
    if (key.tls) {
      options.make_session = [key = key.key,
                              make = find_tls_module()]() -> Result<std::unique_ptr<SecureSession>> {
        return std::unique_ptr<SecureSession>(make(key.data(), key.size()));
      };
    }
    options.timeout = time_left(deadline);
    return std::make_shared<TcpStore>(options);
  } catch (const StoreError& e) {
    throw DistStoreError("the store at " + to_string(server) +
                         " (MASTER_ADDR:MASTER_PORT) cannot be reached: " + e.what() +
                         "; dlaunch serves it for the programs that it starts");
  }
}

void serve_store(const Address& address) {
  static std::mutex mutex;
  static std::map<std::uint16_t, void*>& servers = *new std::map<std::uint16_t, void*>;  // until the end
  const std::lock_guard lock(mutex);
  if (servers.contains(address.port)) return;
  char why[512] = {};
  void* const server = find_server_module()(address.host.c_str(), address.port, why, sizeof why);
  if (!server) {
    throw DistStoreError("rank 0 cannot serve the store at " + to_string(address) + ": " + why +
                         "; if another process serves it already, say so with "
                         "TORCHELASTIC_USE_AGENT_STORE=True");
  }
  servers[address.port] = server;
}

inline namespace v1 {

std::shared_ptr<KeyValueStore> make_hash_store() { return as_public(std::make_shared<HashStore>()); }

std::shared_ptr<KeyValueStore> make_tcp_store(const std::string& host, std::uint16_t port,
                                              std::chrono::milliseconds timeout, bool serve) {
  const Address address{host, port};
  if (serve) serve_store(address);
  return as_public(connect_store(address, deadline_after(timeout)));
}

std::shared_ptr<KeyValueStore> make_file_store(const std::string& path, int world_size) {
  try {
    FileStoreOptions options;
    options.path = path;
    options.world_size = world_size;
    return as_public(std::make_shared<FileStore>(options));
  } catch (const StoreError& e) {
    throw store_error(e);
  }
}

std::shared_ptr<KeyValueStore> make_prefix_store(const std::string& prefix,
                                                 const std::shared_ptr<KeyValueStore>& store) {
  return as_public(std::make_shared<PrefixStore>(prefix, inner_store(store)));
}

}  // namespace v1
}  // namespace dlaunch
