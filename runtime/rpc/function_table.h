// The functions that other workers may call, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
  // The same of the name.
  [[nodiscard]] std::optional<std::string_view> name_of(std::string_view pointer) const;
  // The name that two functions have; empty: there is none.
  [[nodiscard]] std::string conflict() const;

 private:
  struct Hash {  // also of views: they are looked for without a copy
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <class Value>
  using ByText = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;

  mutable std::mutex mutex_;
  // protected by mutex_
  ByText<Function> functions_;
  ByText<std::string> names_;  // by pointer
  std::string conflict_;
};

}  // namespace dlaunch::internal
