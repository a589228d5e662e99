// The functions that other workers may call, by name.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "dlaunch/rpc.h"

namespace dlaunch::internal {

// Any thread. Functions are added before main(), and by libraries that are loaded later; none is removed.
class FunctionTable {
 public:
  struct Function {
    std::uint64_t signature;
    std::string pointer;
    rpc::rpc_detail::Handler handler;
  };

  // The process's.
  static FunctionTable& get();

  // A second function of one name is not added, and counts as a conflict.
  void add(std::string_view name, Function function);
  // Null: there is none. The result lives as long as the table.
  [[nodiscard]] const Function* find(std::string_view name) const;
  [[nodiscard]] std::optional<std::string> name_of(std::string_view pointer) const;
  // The name that two functions have; empty: there is none.
  [[nodiscard]] std::string conflict() const;

 private:
  mutable std::mutex mutex_;
  // protected by mutex_
  std::unordered_map<std::string, Function> functions_;
  std::unordered_map<std::string, std::string> names_;  // by pointer
  std::string conflict_;
};

}  // namespace dlaunch::internal
