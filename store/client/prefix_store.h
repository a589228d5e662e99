// A part of another store: every key gets "prefix/" in front, so that two users of one store do not collide.
// May be nested.
//
// Passes everything on, so it shares the other store's timeout, threads and errors, and num_keys counts all
// keys of that store. list_keys lists its own part, without the prefix. Messages name keys with the prefix.
#pragma once

#include <memory>
#include <string>

#include "store/client/store.h"

namespace dlaunch::store {

class PrefixStore final : public Store {
 public:
  // REQUIRES: `store` is not null. An empty prefix still adds the "/".
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);

  using Store::wait;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  void wait(std::span<const std::string> keys, Duration timeout) override;
  bool check(std::span<const std::string> keys) override;
  std::int64_t num_keys() override;
  bool delete_key(std::string_view key) override;
  void set_timeout(Duration timeout) override;
  [[nodiscard]] Duration timeout() const override;
  std::vector<std::string> multi_get(std::span<const std::string> keys) override;
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override;
  void append(std::string_view key, std::string_view value) override;
  void queue_push(std::string_view key, std::string_view value) override;
  std::optional<std::string> queue_pop(std::string_view key, bool block) override;
  std::int64_t queue_len(std::string_view key) override;
  std::vector<std::string> list_keys() override;
  void barrier(std::string_view key, std::int64_t world_size) override;

 private:
  [[nodiscard]] std::string full(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> full(std::span<const std::string> keys) const;

  const std::string prefix_;  // with the slash
  const std::shared_ptr<Store> store_;
};

}  // namespace dlaunch::store
