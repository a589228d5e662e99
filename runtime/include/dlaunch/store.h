// The key-value stores through which processes find each other, for programs that bring their own to
// init_process_group or want one for themselves.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

// Keys and values are byte strings; values may be empty. Failures are thrown as DistStoreError. The stores
// made below may be used by several threads, whose calls take turns; one that a program writes itself must
// allow the same if it is given to init_process_group.
class DLAUNCH_EXPORT KeyValueStore {
 public:
  virtual ~KeyValueStore();

  virtual void set(const std::string& key, const std::string& value) = 0;
  // REQUIRES: the key exists (see wait).
  virtual std::string get(const std::string& key) = 0;
  // Adds to the decimal number stored at the key (0 if absent) and returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  // Stores `desired` if the value equals `expected`, or if the key is absent and `expected` is empty. Returns
  // the value now stored; for an absent key and a non-empty `expected`, which stores nothing, `expected`.
  virtual std::string compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) = 0;
  // Waits until all keys exist; false if they do not within `timeout` (0: looks, and returns at once).
  virtual bool wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) = 0;
  virtual bool delete_key(const std::string& key) = 0;  // whether it existed
};

// In this process, for its threads.
DLAUNCH_EXPORT std::shared_ptr<KeyValueStore> make_hash_store();

// A client of a TCP store: dlaunch's or PyTorch's. Tries to connect until the timeout. With `serve` this
// process serves the store at that address itself (port 0 is not possible), until it ends.
DLAUNCH_EXPORT std::shared_ptr<KeyValueStore> make_tcp_store(const std::string& host, std::uint16_t port,
                                                             std::chrono::milliseconds timeout,
                                                             bool serve = false);

// In a file that all processes see, also PyTorch's. It is removed when `world_size` stores on it have gone.
DLAUNCH_EXPORT std::shared_ptr<KeyValueStore> make_file_store(const std::string& path, int world_size);

// A part of another store: every key gets "prefix/" in front.
DLAUNCH_EXPORT std::shared_ptr<KeyValueStore> make_prefix_store(const std::string& prefix,
                                                                const std::shared_ptr<KeyValueStore>& store);

}  // namespace v1
}  // namespace dlaunch
