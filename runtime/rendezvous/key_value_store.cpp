#include "runtime/rendezvous/key_value_store.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/backend/module_file.h"
#include "runtime/base/deadline.h"
#include "runtime/base/process_environment.h"
#include "runtime/record/recorder.h"
#include "runtime/rendezvous/served_store.h"
#include "store/client/error_text.h"
#include "store/client/file_store.h"
#include "store/client/hash_store.h"
#include "store/client/job_key.h"
#include "store/client/prefix_store.h"
#include "store/client/steady_time.h"
#include "store/client/tcp_store.h"
#include "store/contract/worker_env.h"
#include "store/tls/tls_client.h"

namespace dlaunch {
using namespace internal;

namespace {

void require_as_many(std::span<const std::string> keys, std::span<const std::string> values) {
  if (keys.size() == values.size()) return;
  throw DistError("multi_set: " + std::to_string(values.size()) + " values for " +
                  std::to_string(keys.size()) + " keys");
}

}  // namespace

inline namespace v1 {

namespace {

[[noreturn]] void lacks(const char* what) {
  throw DistStoreError(std::string("the program's own store does not offer: ") + what);
}

}  // namespace

KeyValueStore::~KeyValueStore() = default;

void KeyValueStore::wait(std::span<const std::string> keys) { wait(keys, timeout()); }
void KeyValueStore::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  if (!wait_for(keys, timeout))
    throw DistStoreError(timeout_error("the program's store", timeout, describe_keys(keys)).message());
}
bool KeyValueStore::check(std::span<const std::string> keys) {
  return wait_for(keys, std::chrono::milliseconds(0));
}

std::int64_t KeyValueStore::num_keys() { lacks("number of keys"); }
std::vector<std::string> KeyValueStore::list_keys() { lacks("list of keys"); }
void KeyValueStore::append(const std::string& /*key*/, const std::string& /*value*/) { lacks("append"); }
void KeyValueStore::queue_push(const std::string& /*key*/, const std::string& /*value*/) { lacks("queues"); }
std::optional<std::string> KeyValueStore::queue_pop(const std::string& /*key*/, bool /*block*/) {
  lacks("queues");
}
std::int64_t KeyValueStore::queue_len(const std::string& /*key*/) { lacks("queues"); }

std::vector<std::string> KeyValueStore::multi_get(std::span<const std::string> keys) {
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) values.push_back(get(key));
  return values;
}

void KeyValueStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
  require_as_many(keys, values);
  for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values[i]);
}

// As PyTorch's stores do it.
void KeyValueStore::barrier(const std::string& key, std::int64_t world_size) {
  const std::string last_member = key + "/last_member";
  if (add(key + "/num_members", 1) == world_size) set(last_member, "1");
  wait({&last_member, 1});
}

void KeyValueStore::set_timeout(std::chrono::milliseconds timeout) { timeout_ms_ = timeout.count(); }
std::chrono::milliseconds KeyValueStore::timeout() const { return std::chrono::milliseconds(timeout_ms_); }

}  // namespace v1
}  // namespace dlaunch

namespace dlaunch::internal {

DistStoreError store_error(const StoreError& error) { return DistStoreError(error.what()); }

namespace {

// Of several keys that a caller waits for, the one that is shown.
std::string_view first_of(std::span<const std::string> keys) {
  return keys.empty() ? std::string_view() : std::string_view(keys.front());
}

class HasStore {
 public:
  virtual ~HasStore() = default;
  [[nodiscard]] virtual const std::shared_ptr<Store>& inner() const = 0;
};

// One of the library's stores as programs see it.
template <class Interface>
class OwnStore : public Interface, public HasStore {
 public:
  using Interface::wait;
  explicit OwnStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override {
    with_store_errors([&] { store_->set(key, value); });
  }
  std::string get(const std::string& key) override {
    const KeyWaitRecord waiting(key);
    return with_store_errors([&] { return store_->get(key); });
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return with_store_errors([&] { return store_->add(key, amount); });
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    return with_store_errors([&] { return store_->compare_set(key, expected, desired); });
  }
  bool wait_for(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    const KeyWaitRecord waiting(first_of(keys));
    try {
      store_->wait(keys, timeout);
      return true;
    } catch (const StoreError& e) {
      if (e.error().kind == ErrorKind::timeout) return false;
      throw store_error(e);
    }
  }
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    const KeyWaitRecord waiting(first_of(keys));
    with_store_errors([&] { store_->wait(keys, timeout); });
  }
  bool check(std::span<const std::string> keys) override {
    return with_store_errors([&] { return store_->check(keys); });
  }
  bool delete_key(const std::string& key) override {
    return with_store_errors([&] { return store_->delete_key(key); });
  }
  std::int64_t num_keys() override {
    return with_store_errors([&] { return store_->num_keys(); });
  }
  std::vector<std::string> list_keys() override {
    return with_store_errors([&] { return store_->list_keys(); });
  }
  void append(const std::string& key, const std::string& value) override {
    with_store_errors([&] { store_->append(key, value); });
  }
  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    const KeyWaitRecord waiting(first_of(keys));
    return with_store_errors([&] { return store_->multi_get(keys); });
  }
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override {
    require_as_many(keys, values);
    with_store_errors([&] { store_->multi_set(keys, values); });
  }
  void queue_push(const std::string& key, const std::string& value) override {
    with_store_errors([&] { store_->queue_push(key, value); });
  }
  std::optional<std::string> queue_pop(const std::string& key, bool block) override {
    const KeyWaitRecord waiting(key);
    return with_store_errors([&] { return store_->queue_pop(key, block); });
  }
  std::int64_t queue_len(const std::string& key) override {
    return with_store_errors([&] { return store_->queue_len(key); });
  }
  void barrier(const std::string& key, std::int64_t world_size) override {
    const KeyWaitRecord waiting(key);
    with_store_errors([&] { store_->barrier(key, world_size); });
  }
  void set_timeout(std::chrono::milliseconds timeout) override { store_->set_timeout(timeout); }
  [[nodiscard]] std::chrono::milliseconds timeout() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(store_->timeout());
  }

  [[nodiscard]] const std::shared_ptr<Store>& inner() const override { return store_; }

 private:
  const std::shared_ptr<Store> store_;
};

// A client that owns a part of the server that this process runs for it.
class ServedTcpStore final : public TcpStore {
 public:
  ServedTcpStore(const TcpStoreOptions& options, std::shared_ptr<const ServedStore> server)
      : TcpStore(options), server_(std::move(server)) {}

 private:
  const std::shared_ptr<const ServedStore> server_;
};

class OwnTcpStore final : public OwnStore<TcpKeyValueStore> {
 public:
  OwnTcpStore(std::shared_ptr<Store> store, Address address, bool is_serving)
      : OwnStore(std::move(store)), address_(std::move(address)), is_serving_(is_serving) {}

  [[nodiscard]] std::string host() const override { return address_.host; }
  [[nodiscard]] std::uint16_t port() const override { return address_.port; }
  [[nodiscard]] bool is_serving() const override { return is_serving_; }

 private:
  const Address address_;
  const bool is_serving_;
};

// A program's own store as the library sees it. Its errors pass unchanged.
class ForeignStore final : public Store {
 public:
  explicit ForeignStore(std::shared_ptr<KeyValueStore> store) : store_(std::move(store)) {}

  using Store::wait;
  void set(std::string_view key, std::string_view value) override {
    store_->set(std::string(key), std::string(value));
  }
  std::string get(std::string_view key) override {
    const std::string name(key);
    wait({&name, 1}, timeout());
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
    if (store_->wait_for(keys, length)) return;
    throw StoreError(timeout_error("the program's store", timeout, describe_keys(keys)));
  }
  bool check(std::span<const std::string> keys) override { return store_->check(keys); }
  std::int64_t num_keys() override { return store_->num_keys(); }
  std::vector<std::string> list_keys() override { return store_->list_keys(); }
  bool delete_key(std::string_view key) override { return store_->delete_key(std::string(key)); }
  void append(std::string_view key, std::string_view value) override {
    store_->append(std::string(key), std::string(value));
  }
  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    return store_->multi_get(keys);
  }
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override {
    store_->multi_set(keys, values);
  }
  void queue_push(std::string_view key, std::string_view value) override {
    store_->queue_push(std::string(key), std::string(value));
  }
  std::optional<std::string> queue_pop(std::string_view key, bool block) override {
    return store_->queue_pop(std::string(key), block);
  }
  std::int64_t queue_len(std::string_view key) override { return store_->queue_len(std::string(key)); }
  void barrier(std::string_view key, std::int64_t world_size) override {
    store_->barrier(std::string(key), world_size);
  }
  void set_timeout(Duration timeout) override {
    store_->set_timeout(std::chrono::ceil<std::chrono::milliseconds>(timeout));
  }
  [[nodiscard]] Duration timeout() const override { return store_->timeout(); }

 private:
  const std::shared_ptr<KeyValueStore> store_;
};

std::shared_ptr<KeyValueStore> as_public(std::shared_ptr<Store> store) {
  return std::make_shared<OwnStore<KeyValueStore>>(std::move(store));
}

TlsClientSession find_tls_module() {
  return reinterpret_cast<TlsClientSession>(
      find_in_module("tls.so", tls_client_symbol, "the job's store is encrypted (--tls)"));
}

}  // namespace

std::shared_ptr<Store> inner_store(const std::shared_ptr<KeyValueStore>& store) {
  if (const auto own = std::dynamic_pointer_cast<HasStore>(store)) return own->inner();
  return std::make_shared<ForeignStore>(store);
}

TcpStoreOptions client_options(const Address& server, std::chrono::milliseconds timeout) {
  TcpStoreOptions options;
  options.server = server;
  options.timeout = timeout;
  const JobKey key = job_store_key(server);
  options.key = key.key;
  if (key.tls) {
    options.make_session = [key = key.key,
                            make = find_tls_module()]() -> Result<std::unique_ptr<SecureSession>> {
      return std::unique_ptr<SecureSession>(make(key.data(), key.size()));
    };
  }
  return options;
}

std::shared_ptr<Store> connect_store(const Address& server, Deadline deadline) {
  try {
    return std::make_shared<TcpStore>(client_options(server, time_left(deadline)));
  } catch (const StoreError& e) {
    throw DistStoreError("the store at " + to_string(server) +
                         " (MASTER_ADDR:MASTER_PORT) cannot be reached: " + e.what() +
                         "; dlaunch serves it for the programs that it starts");
  }
}

}  // namespace dlaunch::internal

namespace dlaunch {

namespace {

// Empty: nothing.
std::string contradiction_in(const Address& address, const TcpKeyValueStoreOptions& options) {
  if (options.world_size && *options.world_size < 1)
    return "world_size is " + std::to_string(*options.world_size) + "; at least 1 is needed";
  if (!options.is_master && options.master_listen_fd)
    return "master_listen_fd is given, but is_master is not set";
  if (!options.is_master && address.port == 0)
    return "the port is 0: only the master may leave it to the system; give a client the master's port()";
  return {};
}

// Whether the launcher's agent serves the job's store at this address.
bool is_the_agents(const Address& address) {
  return process_environment(env::use_agent_store) == "True" &&
         process_environment(env::master_addr) == address.host &&
         process_environment(env::master_port) == std::to_string(address.port);
}

// None: the agent serves there instead.
std::shared_ptr<const ServedStore> server_of(const Address& address, const TcpKeyValueStoreOptions& options) {
  if (!options.is_master) return nullptr;
  try {
    return serve_store({address, options.master_listen_fd, options.multi_tenant});
  } catch (const DistStoreError& e) {
    if (is_the_agents(address) && !options.master_listen_fd) return nullptr;
    throw DistStoreError("the store cannot be served at " + to_string(address) + ": " + e.reason());
  }
}

}  // namespace

inline namespace v1 {

std::shared_ptr<KeyValueStore> make_hash_store(std::chrono::milliseconds timeout) {
  const auto store = std::make_shared<HashStore>();
  store->set_timeout(timeout);
  return as_public(store);
}

std::shared_ptr<TcpKeyValueStore> make_tcp_store(const std::string& host, std::uint16_t port,
                                                 const TcpKeyValueStoreOptions& options) {
  const Deadline deadline = deadline_after(options.timeout);
  Address address{host, port};
  if (const std::string why = contradiction_in(address, options); !why.empty()) {
    if (options.master_listen_fd) close(*options.master_listen_fd);
    throw DistError("make_tcp_store: " + why);
  }
  const std::shared_ptr<const ServedStore> server = server_of(address, options);
  if (server) address.port = server->address.port;
  return with_store_errors([&]() -> std::shared_ptr<TcpKeyValueStore> {
    TcpStoreOptions client;
    if (server) {
      client.server = address;
      client.timeout = options.timeout;
    } else {
      client = client_options(address, options.timeout);
    }
    if (options.wait_for_workers && options.world_size) client.world_size = *options.world_size;
    const auto store = std::make_shared<ServedTcpStore>(client, server);
    if (server && client.world_size)
      store->await_workers(*client.world_size, deadline_after(steady_now(), time_left(deadline)));
    return std::make_shared<OwnTcpStore>(store, address, server != nullptr);
  });
}

std::shared_ptr<KeyValueStore> make_file_store(const std::string& path, int world_size,
                                               std::chrono::milliseconds timeout) {
  return with_store_errors([&] {
    FileStoreOptions options;
    options.path = path;
    options.world_size = world_size;
    options.timeout = timeout;
    return as_public(std::make_shared<FileStore>(options));
  });
}

std::shared_ptr<KeyValueStore> make_prefix_store(const std::string& prefix,
                                                 const std::shared_ptr<KeyValueStore>& store) {
  if (!store) throw DistError("make_prefix_store: the store is null");
  return as_public(std::make_shared<PrefixStore>(prefix, inner_store(store)));
}

}  // namespace v1
}  // namespace dlaunch
