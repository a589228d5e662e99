// Which connections a store with a key answers: those that prove the key, and those from the addresses of the
// job's machines, since PyTorch's clients cannot prove it. Pure.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>

namespace dlaunch::store {

struct StoreKey {
  std::string key = {};  // empty: the store answers every client
  // key_nonce_size unpredictable bytes. REQUIRES: set if there is a key.
  std::function<std::string()> draw_nonce = {};
  // Whether the address (numeric, without port) is this machine's. Unset: only loopback addresses are.
  std::function<bool(const std::string& host)> is_own = {};
  // Remote clients must be encrypted, and no address is trusted.
  bool needs_tls = false;
};

class StoreAccess {
 public:
  explicit StoreAccess(StoreKey key) : key_(std::move(key)) {}

  [[nodiscard]] const StoreKey& key() const { return key_; }
  [[nodiscard]] bool has_key() const { return !key_.key.empty(); }
  [[nodiscard]] bool is_own(const std::string& host) const;
  // Whether the store answers a client at `host` that has proved nothing.
  [[nodiscard]] bool admits(const std::string& host) const;

  // Trusts this address: a node of the job whose agent has proved the secret.
  void trust(const std::string& host) { trusted_.insert(host); }
  void clear_trusted() { trusted_.clear(); }

 private:
  StoreKey key_;
  std::set<std::string> trusted_;
};

}  // namespace dlaunch::store
