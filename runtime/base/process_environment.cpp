#include "runtime/base/process_environment.h"

#include <cstdlib>

namespace dlaunch::internal {

std::optional<std::string> process_environment(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace dlaunch::internal
