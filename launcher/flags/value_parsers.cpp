#include "launcher/flags/value_parsers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "launcher/flags/spelling.h"
#include "store/base/number.h"

namespace dlaunch::launcher {

namespace {

// None: it is not a number.
std::optional<double> number_of_seconds(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

Error no_number_of_seconds(const std::string& name, const std::string& text) {
  return usage(name + ": '" + text + "' is not a number of seconds");
}

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

std::string in_seconds(std::chrono::seconds time) { return std::to_string(time.count()) + " s"; }

// "K", "k", "KiB": the power of 1024 that it stands for. None: it is not a unit.
std::optional<int> unit_of_bytes(std::string unit) {
  constexpr std::string_view letters = "kmgt";
  unit = lower(unit);
  if (unit.empty()) return 0;
  const auto at = letters.find(unit.front());
  if (at == std::string_view::npos || (unit.size() > 1 && unit.substr(1) != "ib")) return std::nullopt;
  return static_cast<int>(at) + 1;
}

}  // namespace

Error usage(std::string what, std::string why, std::string hint) {
  return {ErrorKind::invalid, std::move(what), "", std::move(why), std::move(hint)};
}

Error mistake(std::string what, std::string hint) { return usage(std::move(what), "", std::move(hint)); }

Result<int> number(const std::string& name, const std::string& text, int least, int most) {
  auto value = whole_number(name, text, least, most);
  if (!value) return std::move(value).error();
  return static_cast<int>(*value);
}

Result<Duration> seconds(const std::string& name, const std::string& text) {
  const auto value = number_of_seconds(text);
  if (!value) return no_number_of_seconds(name, text);
  if (*value < 0 || *value > static_cast<double>(longest_time.count()))
    return mistake(name + ": " + text + " is out of range",
                   "give a value from 0 to " + in_seconds(longest_time));
  return to_duration(*value);
}

Result<Duration> positive_seconds(const std::string& name, const std::string& text,
                                  std::chrono::seconds most) {
  const auto value = number_of_seconds(text);
  if (!value) return no_number_of_seconds(name, text);
  const auto limit = static_cast<double>(most.count());
  const Duration time = to_duration(std::clamp(*value, 0.0, limit));
  if (time <= Duration::zero() || *value > limit)
    return mistake(name + ": " + text + " is out of range",
                   "give a value above 0 and at most " + in_seconds(most));
  return time;
}

Result<std::string> choice(const std::string& name, const std::string& text,
                           const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  const std::string near = nearest(text, choices);
  return usage(name + ": '" + text + "' is not one of " + join(choices, ", "), "",
               near.empty() ? "" : "did you mean " + near + "?");
}

std::optional<bool> switch_word(std::string_view text) {
  const std::string word = lower(text);
  constexpr std::array on{"1", "true", "yes", "on"};
  constexpr std::array off{"0", "false", "no", "off"};
  if (std::find(on.begin(), on.end(), word) != on.end()) return true;
  if (std::find(off.begin(), off.end(), word) != off.end()) return false;
  return std::nullopt;
}

std::vector<std::string> comma_list(std::string_view text, bool doubled_is_literal) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  parts.emplace_back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      parts.back().push_back(text[i]);
    } else if (doubled_is_literal && i + 1 < text.size() && text[i + 1] == ',') {
      parts.back().push_back(',');
      ++i;
    } else {
      parts.emplace_back();
    }
  }
  return parts;
}

Result<std::int64_t> whole_number(const std::string& name, const std::string& text, std::int64_t least,
                                  std::int64_t most) {
  const auto value = parse_number<std::int64_t>(text);
  if (!value) return usage(name + ": '" + text + "' is not a number");
  if (*value < least || *value > most) {
    return mistake(name + ": " + text + " is out of range",
                   "give a value from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return *value;
}

Result<std::uint64_t> byte_size(const std::string& name, const std::string& text) {
  constexpr double largest = 1ULL << 50;
  char* end = nullptr;
  const double count = std::strtod(text.c_str(), &end);
  const auto power = unit_of_bytes(end);
  const double value = power ? std::ldexp(count, 10 * *power) : 0;
  if (end == text.c_str() || !(value >= 1 && value <= largest))
    return mistake(name + ": '" + text + "' is not a size", "give a number of bytes, or for example 512M");
  return static_cast<std::uint64_t>(value);
}

}  // namespace dlaunch::launcher
