// The backends of this process: those given to register_backend, and the modules on disk.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dlaunch/backend.h"
#include "store/base/result.h"

namespace dlaunch::internal {

// The name of a backend as it is stored and shown: in lower case.
std::string plain_name(std::string_view text);

// A module is searched when it is asked for, and loaded once. It stays loaded until the process ends, since
// its threads may still run its code. Any thread may call.
class Registry {
 public:
  // `folders` are searched in this order for backend_<name>.so.
  explicit Registry(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  // Fails if the table is incomplete, made for another ABI number, or its name is taken.
  Result<void> add(const BackendModule& module);

  // The module, if it is known and viable here. The error lists the known backends and why each is usable or
  // not.
  Result<const BackendModule*> find(std::string_view name);

 private:
  struct Entry {
    const BackendModule* module = nullptr;
    std::string problem;  // why there is no module
  };

  Entry& load(const std::string& name, const std::string& path);
  Entry* look_up(const std::string& name);
  std::string known();

  const std::vector<std::string> folders_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // by name; protected by mutex_
};

// The folders of DLAUNCH_BACKEND_PATH, then "dlaunch" beside the library that holds this code.
std::vector<std::string> backend_folders();

}  // namespace dlaunch::internal
