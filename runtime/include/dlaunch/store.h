// The key-value stores through which processes find each other, for programs that give their own store to
// init_process_group or need one for themselves.
//
//   auto store = dlaunch::make_tcp_store("127.0.0.1", 0, {.is_master = true});
//   store->set("first_key", "first_value");
//   store->get("first_key");  // also from other processes, at store->port()
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

inline constexpr std::chrono::milliseconds default_store_timeout = std::chrono::seconds(300);

// Keys and values are byte strings; values may be empty. Failures are thrown as DistStoreError. The stores
// made below may be used by several threads, whose calls run one after another; a program's own class must
// allow the same if it is given to init_process_group.
//
// Such a class defines the pure calls. The others have a default: made of the pure ones, or a DistStoreError
// if the comment names it.
class DLAUNCH_EXPORT KeyValueStore {
 public:
  KeyValueStore() = default;
  virtual ~KeyValueStore();
  KeyValueStore(const KeyValueStore&) = delete;
  KeyValueStore& operator=(const KeyValueStore&) = delete;

  // Stores the value; replaces an earlier one.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // The value. Waits until the key exists; throws if it does not within timeout().
  virtual std::string get(const std::string& key) = 0;
  // Adds to the decimal number stored at the key (0 if absent) and returns the sum. Throws if the value is
  // not a number; it is not changed then.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  // Stores `desired` if the value equals `expected`, or if the key is absent and `expected` is empty. Returns
  // the value now stored; for an absent key and a non-empty `expected`, which stores nothing, `expected`.
  virtual std::string compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) = 0;
  // Waits until all keys exist; false if they do not within `timeout` (0: checks, and returns at once).
  virtual bool wait_for(std::span<const std::string> keys, std::chrono::milliseconds timeout) = 0;
  virtual bool delete_key(const std::string& key) = 0;  // whether it existed

  // Waits until all keys exist; throws if they do not within `timeout`, or else within timeout().
  void wait(std::span<const std::string> keys);
  virtual void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout);
  virtual bool check(std::span<const std::string> keys);  // whether all exist now

  // The number of keys. A TCP store that counts its workers has one more, a file store two; a part of another
  // store counts the keys of the whole store. Default: DistStoreError.
  virtual std::int64_t num_keys();
  virtual std::vector<std::string> list_keys();  // those that programs have made. Default: DistStoreError

  // Adds to the end of the value; an absent key gets the value. Default: DistStoreError.
  virtual void append(const std::string& key, const std::string& value);

  // Several keys at once, in one exchange where the store can. multi_get waits as get does. multi_set takes
  // as many values as keys, else it throws DistError.
  virtual std::vector<std::string> multi_get(std::span<const std::string> keys);
  virtual void multi_set(std::span<const std::string> keys, std::span<const std::string> values);

  // First in, first out. queue_pop waits as get does, unless `block` is false: then it returns no value if
  // the queue is empty. A queue and a key of the same name are different things, but for check and wait a key
  // exists if its queue is not empty. A file store has no queues, and the default is DistStoreError.
  virtual void queue_push(const std::string& key, const std::string& value);
  virtual std::optional<std::string> queue_pop(const std::string& key, bool block = true);
  virtual std::int64_t queue_len(const std::string& key);

  // Returns when `world_size` calls with this key have been made, by any client; throws after timeout(). A
  // key serves for one barrier. All callers use the same kind of store.
  virtual void barrier(const std::string& key, std::int64_t world_size);

  // How long get and wait wait for keys; 300 s at first. With 0 they throw at once if a key is missing; a
  // negative value counts as 0. A part of another store shares that store's timeout. Default: stores the
  // value; a derived class's get has to obey it.
  virtual void set_timeout(std::chrono::milliseconds timeout);
  [[nodiscard]] virtual std::chrono::milliseconds timeout() const;

 private:
  std::atomic<std::int64_t> timeout_ms_ = default_store_timeout.count();
};

// In this process, for its threads.
DLAUNCH_EXPORT std::shared_ptr<KeyValueStore> make_hash_store(
    std::chrono::milliseconds timeout = default_store_timeout);

// In a file that all processes see, also PyTorch's. The last of `world_size` stores on it removes it; -1: it
// stays.
DLAUNCH_EXPORT std::shared_ptr<KeyValueStore> make_file_store(
    const std::string& path, int world_size = -1, std::chrono::milliseconds timeout = default_store_timeout);

// A part of another store: every key gets "prefix/" in front.
DLAUNCH_EXPORT std::shared_ptr<KeyValueStore> make_prefix_store(const std::string& prefix,
                                                                const std::shared_ptr<KeyValueStore>& store);

struct TcpKeyValueStoreOptions {
  // How many processes (or objects) will use the store, including the master. None: any number, and the call
  // does not wait for them.
  std::optional<int> world_size = {};
  // This process serves the store, at the given address. The server ends with the last object that uses it in
  // this process: this one, parts of it, groups that were made with it. It must outlive its use by other
  // processes. If the launcher's agent serves already (TORCHELASTIC_USE_AGENT_STORE=True, and the address is
  // MASTER_ADDR:MASTER_PORT), this object is a client of that server.
  bool is_master = false;
  // For connecting, with retries, and for the wait for the workers; then it is the store's timeout().
  std::chrono::milliseconds timeout = default_store_timeout;
  // Each object counts as a worker, and the master's call returns when `world_size` workers have connected.
  bool wait_for_workers = true;
  // A second master of this host and port in one process uses the first one's server. Both must set this;
  // otherwise the second call throws.
  bool multi_tenant = false;
  // A socket that is bound to the master's port, and may listen already. It belongs to the store from the
  // call on, also if that throws. Only for a master; the port must be the socket's, or 0.
  std::optional<int> master_listen_fd = {};
};

// A client of a TCP store, dlaunch's or PyTorch's.
class DLAUNCH_EXPORT TcpKeyValueStore : public KeyValueStore {
 public:
  [[nodiscard]] virtual std::string host() const = 0;    // as it was given
  [[nodiscard]] virtual std::uint16_t port() const = 0;  // the real one
  [[nodiscard]] virtual bool is_serving() const = 0;     // whether this process serves it
};

// Port 0: only for a master, any free port. Throws DistError if the options contradict each other, and
// DistStoreError if the store cannot be served or reached, or too few workers connect.
DLAUNCH_EXPORT std::shared_ptr<TcpKeyValueStore> make_tcp_store(const std::string& host, std::uint16_t port,
                                                                const TcpKeyValueStoreOptions& options = {});

}  // namespace v1
}  // namespace dlaunch
