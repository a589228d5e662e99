#include "runtime/rpc/function_table.h"

#include <utility>

namespace dlaunch::internal {

FunctionTable& FunctionTable::get() {
  // Never destroyed: calls may arrive until the process has ended.
  static FunctionTable& only = *new FunctionTable;
  return only;
}

void FunctionTable::add(std::string_view name, Function function) {
  const std::lock_guard lock(mutex_);
  const std::string key(name);
  if (const auto before = functions_.find(key); before != functions_.end()) {
    if (before->second.pointer != function.pointer) conflict_ = key;
    return;
  }
  names_.emplace(function.pointer, key);
  functions_.emplace(key, std::move(function));
}

const FunctionTable::Function* FunctionTable::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto at = functions_.find(name);
  return at == functions_.end() ? nullptr : &at->second;
}

std::optional<std::string_view> FunctionTable::name_of(std::string_view pointer) const {
  const std::lock_guard lock(mutex_);
  const auto at = names_.find(pointer);
  return at == names_.end() ? std::nullopt : std::optional<std::string_view>(at->second);
}

std::string FunctionTable::conflict() const {
  const std::lock_guard lock(mutex_);
  return conflict_;
}

}  // namespace dlaunch::internal
