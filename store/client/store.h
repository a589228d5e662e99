// A key-value store that the processes of one job share: what torch.distributed calls a Store.
//
// Keys and values are byte strings; values may be empty. All calls block, at most for the store's timeout
// (set_timeout, or the argument if there is one). Each implementation states which threads may call it; by
// default several threads may use one object, and their calls take turns.
//
// Failures are thrown as StoreError. Its kind distinguishes a passed deadline (ErrorKind::timeout), a lost
// server (network), a key or value over the server's limit (limit) and a value that is not a number
// (invalid).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::store {

class StoreError : public std::runtime_error {
 public:
  explicit StoreError(const Error& error) : std::runtime_error(error.message()), error_(error) {}
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

class Store {
 public:
  virtual ~Store() = default;

  // Stores the value, and replaces an old one. Wakes the waits for the key.
  virtual void set(std::string_view key, std::string_view value) = 0;

  // Waits until the key exists, then returns its value.
  virtual std::string get(std::string_view key) = 0;

  // Adds to the decimal number stored at the key (0 if absent) and returns the sum; add(key, 0) creates it.
  virtual std::int64_t add(std::string_view key, std::int64_t amount) = 0;

  // Stores `desired` if the value equals `expected`, or if the key is absent and `expected` is empty. Returns
  // the value now stored; if the key is absent and `expected` is not empty, stores nothing and returns
  // `expected`.
  virtual std::string compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired) = 0;

  // Returns when all the keys exist; without keys at once.
  void wait(std::span<const std::string> keys) { wait(keys, timeout()); }
  virtual void wait(std::span<const std::string> keys, Duration timeout) = 0;

  // Whether all the keys exist now.
  virtual bool check(std::span<const std::string> keys) = 0;

  virtual std::int64_t num_keys() = 0;
  virtual bool delete_key(std::string_view key) = 0;  // whether it existed

  // The longest wait of get, of wait, and for a server's answer. Default 300 s, as PyTorch's. With a timeout
  // of zero or less no call waits: a key that exists is found, a missing one is a timeout at once.
  virtual void set_timeout(Duration timeout) = 0;
  [[nodiscard]] virtual Duration timeout() const = 0;

  // Several keys at once: in one exchange if the store can, else one after the other.
  virtual std::vector<std::string> multi_get(std::span<const std::string> keys);
  // REQUIRES: as many values as keys.
  virtual void multi_set(std::span<const std::string> keys, std::span<const std::string> values);

  // Returns when `world_size` calls with this key have been made, by any process. A key serves one barrier:
  // its count never decreases, even after a call that timed out. A store without a barrier of its own does as
  // PyTorch's: it counts in "<key>/num_members", and the last caller sets "<key>/last_member". All callers
  // must use one kind of store.
  virtual void barrier(std::string_view key, std::int64_t world_size);

  // Calls that some stores lack: they throw a StoreError of kind refused.
  virtual void append(std::string_view key, std::string_view value);
  // A queue has no value for the key of its name, but check and wait treat a queue that is not empty as a
  // present key.
  virtual void queue_push(std::string_view key, std::string_view value);
  // The oldest value. With `block` waits for one, else returns none at once.
  virtual std::optional<std::string> queue_pop(std::string_view key, bool block);
  virtual std::int64_t queue_len(std::string_view key);
  virtual std::vector<std::string> list_keys();
};

}  // namespace dlaunch::store
