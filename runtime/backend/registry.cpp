#include "runtime/backend/registry.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>

namespace dlaunch::internal {

namespace {

constexpr std::string_view file_prefix = "backend_";
constexpr std::string_view file_suffix = ".so";
constexpr const char* symbol = "dlaunch_backend_module";

std::string unusable_table(const BackendModule& module) {
  // The number comes first in every version of the table; if it differs, nothing else may be read.
  if (module.abi != backend_abi_version) {
    return "it was built for backend ABI " + std::to_string(module.abi) + ", this library has " +
           std::to_string(backend_abi_version);
  }
  if (!module.name || !module.devices || !module.viable || !module.create) return "its table is incomplete";
  return {};
}

std::string reason_against(const BackendModule& module) {
  std::string reason;
  if (module.viable(reason)) return {};
  return reason.empty() ? "it reports that it does not work here" : reason;
}

// "gloo" from "backend_gloo.so".
std::optional<std::string> name_in(const std::string& file) {
  if (!file.starts_with(file_prefix) || !file.ends_with(file_suffix)) return std::nullopt;
  return file.substr(file_prefix.size(), file.size() - file_prefix.size() - file_suffix.size());
}

}  // namespace

std::string plain_name(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

Result<void> Registry::add(const BackendModule& module) {
  const std::string problem = unusable_table(module);
  if (!problem.empty()) return Error{ErrorKind::invalid, "cannot register a backend", "", problem, ""};
  const std::lock_guard lock(mutex_);
  const std::string name = plain_name(module.name);
  if (look_up(name))
    return Error{ErrorKind::invalid, "cannot register backend", name, "the name is taken", ""};
  entries_[name].module = &module;
  return {};
}

Result<const BackendModule*> Registry::find(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const std::string wanted = plain_name(name);
  const Entry* entry = look_up(wanted);
  if (!entry)
    return Error{ErrorKind::not_found, "unknown backend", "'" + wanted + "'", "known backends: " + known(),
                 ""};
  std::string problem = entry->module ? reason_against(*entry->module) : entry->problem;
  if (problem.empty()) return entry->module;
  return Error{ErrorKind::refused, "backend", "'" + wanted + "' cannot be used", std::move(problem), ""};
}

Registry::Entry* Registry::look_up(const std::string& name) {
  if (const auto found = entries_.find(name); found != entries_.end()) return &found->second;
  if (name.find('/') != std::string::npos) return nullptr;  // a name must not lead out of the folders
  for (const std::string& folder : folders_) {
    std::string path = folder + "/";
    path.append(file_prefix).append(name).append(file_suffix);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return &load(name, path);
  }
  return nullptr;
}

Registry::Entry& Registry::load(const std::string& name, const std::string& path) {
  Entry& entry = entries_[name];
  // Not global: the process may contain PyTorch with its own Gloo, and each must use its own symbols.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const why = dlerror();
    entry.problem = why ? why : path + " cannot be loaded";
    return entry;
  }
  const auto* const module = static_cast<const BackendModule*>(dlsym(library, symbol));
  entry.problem = module ? unusable_table(*module) : std::string("it does not export ") + symbol;
  if (entry.problem.empty() && plain_name(module->name) != name) {
    entry.problem = std::string("its table has the name '") + module->name + "'";
  }
  if (entry.problem.empty()) {
    entry.module = module;
  } else {
    entry.problem = path + ": " + entry.problem;
  }
  return entry;
}

std::string Registry::known() {
  for (const std::string& folder : folders_) {
    std::error_code ignored;
    for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
      if (const auto name = name_in(file.path().filename())) look_up(*name);
    }
  }
  std::string text;
  for (const auto& [name, entry] : entries_) {
    const std::string problem = entry.module ? reason_against(*entry.module) : entry.problem;
    text += (text.empty() ? "" : ", ") + name +
            (problem.empty() ? " (usable)" : " (not usable: " + problem + ")");
  }
  return text.empty() ? "none" : text;
}

std::vector<std::string> backend_folders() {
  std::vector<std::string> folders;
  if (const char* const path = std::getenv("DLAUNCH_BACKEND_PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const std::size_t colon = std::min(rest.find(':'), rest.size());
      if (colon > 0) folders.emplace_back(rest.substr(0, colon));
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
  }
  Dl_info here{};
  // A function of this library: a pointer to a member function has no plain address.
  if (dladdr(reinterpret_cast<void*>(&backend_folders), &here) != 0 && here.dli_fname) {
    std::error_code failed;
    const std::filesystem::path library = std::filesystem::canonical(here.dli_fname, failed);
    if (!failed) folders.push_back((library.parent_path() / "dlaunch").string());
  }
  return folders;
}

}  // namespace dlaunch::internal
