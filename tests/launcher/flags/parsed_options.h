// parse_options as the tests call it: arguments, and variables and files where a test needs them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "launcher/options/options.h"

namespace dlaunch::launcher {

using Words = std::vector<std::string>;

inline auto parse(const Words& arguments, EnvironmentMap environment = {},
                  const std::map<std::string, std::string>& files = {}) {
  Dependencies dependencies;
  dependencies.scheduler_env = {std::move(environment), "a", ""};
  dependencies.read_file = [&files](const std::string& path) -> Result<std::string> {
    const auto found = files.find(path);
    if (found == files.end())
      return Error{ErrorKind::not_found, "cannot read", path, "No such file or directory", ""};
    return found->second;
  };
  return parse_options(arguments, dependencies);
}

inline Options good(const Words& arguments, EnvironmentMap environment = {},
                    const std::map<std::string, std::string>& files = {}) {
  auto parsed = parse(arguments, std::move(environment), files);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message());
  return parsed.ok() && std::holds_alternative<Options>(*parsed) ? std::get<Options>(*parsed) : Options{};
}

inline std::string bad(const Words& arguments, EnvironmentMap environment = {},
                       const std::map<std::string, std::string>& files = {}) {
  auto parsed = parse(arguments, std::move(environment), files);
  EXPECT_FALSE(parsed.ok());
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
  const std::string message = parsed.error().message();
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

}  // namespace dlaunch::launcher
