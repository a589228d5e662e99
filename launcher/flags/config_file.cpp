#include "launcher/flags/config_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/flags/spelling.h"
#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::json;

bool is_scalar(const Json& value) { return value.is_string() || value.is_number() || value.is_boolean(); }

std::string text_of(const Json& scalar) {
  return scalar.is_string() ? scalar.get<std::string>() : scalar.dump();
}

Result<std::string> value_of(const Json& value, const std::string& name, bool repeats) {
  if (is_scalar(value)) return text_of(value);
  const bool list_of_scalars = value.is_array() && std::all_of(value.begin(), value.end(), is_scalar);
  if (!list_of_scalars) {
    return usage(name + " must be a string, a number, true, false, or a list of these", "",
                 "not " + std::string(value.is_array() ? "a list of other things" : value.type_name()));
  }
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(text_of(part));
  return join(parts, repeats ? "\n" : ",");
}

Result<const Flag*> flag_named(const std::string& key, const std::string& path) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', '-');
  const Flag* flag = find_flag(name);
  if (flag && flag->settable && flag->name != "config") return flag;
  if (flag) return usage("'" + key + "' in " + path + " can only be given on the command line");
  std::vector<std::string> known;
  for (const Flag& one : flags()) known.emplace_back(one.name);
  const std::string near = nearest(name, known);
  return usage("'" + key + "' in " + path + " is not the name of a flag", "",
               near.empty() ? "see dlaunch --help" : "did you mean " + near + "?");
}

}  // namespace

Result<Settings> settings_from_json(const std::string& text, const std::string& path) {
  Json json;
  try {
    json = Json::parse(text, nullptr, true, true);  // comments are allowed: people write them
  } catch (const Json::exception& error) {          // bad grammar, or a number that is too large
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string why = error.what();
    if (const auto bracket = why.find("] "); bracket != std::string::npos) why.erase(0, bracket + 2);
    return usage(path + " is not JSON", why, "");
  }
  if (!json.is_object()) return usage(path + " must contain a JSON object whose keys are flag names");

  Settings out;
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) continue;
    auto flag = flag_named(key, path);
    if (!flag) return std::move(flag).error();
    const std::string name = std::string(key).append(" in ").append(path);
    auto content = value_of(value, name, (*flag)->repeats);
    if (!content) return std::move(content).error();
    auto setting = make_setting(**flag, std::move(*content), Origin::config, name);
    if (!setting) return std::move(setting).error();
    const auto [before, added] = out.emplace(canonical(**flag).name, *setting);
    if (!added) return usage(name + " and " + before->second.from + " set the same flag");
  }
  return out;
}

}  // namespace dlaunch::launcher
