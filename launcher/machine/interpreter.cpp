#include "launcher/machine/interpreter.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <system_error>

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> variable(const EnvironmentMap& environment, const char* name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

// Empty: there is no executable one.
std::string python_in(const fs::path& folder) {
  const fs::path python = folder / "python3";
  std::error_code failed;
  const bool is_program = !fs::is_directory(python, failed) && access(python.c_str(), X_OK) == 0;
  return is_program ? python.string() : "";
}

}  // namespace

std::string python_interpreter(const EnvironmentMap& environment, const std::string& own_path) {
  if (const auto named = variable(environment, "PYTHON_EXEC")) return *named;
  if (const auto active = variable(environment, "VIRTUAL_ENV")) {
    if (std::string python = python_in(fs::path(*active) / "bin"); !python.empty()) return python;
  }
  fs::path folder = fs::path(own_path).parent_path();
  while (folder.has_relative_path() && access((folder / "pyvenv.cfg").c_str(), F_OK) != 0)
    folder = folder.parent_path();
  std::string python = folder.has_relative_path() ? python_in(folder / "bin") : "";
  return python.empty() ? "python3" : python;
}

std::string own_path() {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it is an address
  const auto* path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  std::error_code failed;
  return path != nullptr ? fs::absolute(path, failed).string() : "";
}

}  // namespace dlaunch::launcher
