// The variables of this process's environment, injected so that tests can give others.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::internal {

using Environment = std::function<std::optional<std::string>(std::string_view name)>;

// The variable's value in this process's environment; nothing if it is not set.
std::optional<std::string> process_environment(std::string_view name);

}  // namespace dlaunch::internal
