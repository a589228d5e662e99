// The backends this process knows: those handed over by register_backend, and the modules on disk.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dlaunch/backend.h"
#include "store/base/result.h"

namespace dlaunch {

// The name of a backend as it is kept and told: in lower case.
std::string plain_name(std::string_view text);

// Modules are looked for when they are asked for, and loaded once; a loaded one stays until the process ends,
// since nobody can tell when its last thread has left its code. Any thread may call.
class Registry {
 public:
  // `folders` are searched in this order for backend_<name>.so.
  explicit Registry(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  // Fails if the table is incomplete, made for another ABI number, or its name taken.
  Result<void> add(const BackendModule& module);

  // The module, if it is known and viable here. The error lists the known
  // ones and why each is or is not usable.
  Result<const BackendModule*> find(std::string_view name);

 private:
  struct Entry {
    const BackendModule* module = nullptr;
    std::string problem;  // why there is none
  };

  Entry& load(const std::string& name, const std::string& path);
  Entry* look_up(const std::string& name);
  std::string known();

  const std::vector<std::string> folders_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // by name; protected by mutex_
};

// DLAUNCH_BACKEND_PATH's folders, then "dlaunch" beside the library that holds this code.
std::vector<std::string> backend_folders();

}  // namespace dlaunch
