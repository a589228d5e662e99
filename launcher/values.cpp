#include "launcher/values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "launcher/spelling.h"

namespace dlaunch::launcher {

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
  constexpr double most = 7.0 * 24 * 3600;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value))
    return usage(name + ": '" + text + "' is not a number of seconds");
  if (value < 0 || value > most)
    return usage(name + ": " + text + " is out of range", "", "it goes from 0 to 604800 s");
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

Result<std::string> choice(const std::string& name, const std::string& text,
                           const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  const std::string near = nearest(text, choices);
  return usage(name + ": '" + text + "' is not one of " + join(choices, ", "), "",
               near.empty() ? "" : "did you mean " + near + "?");
}

std::optional<bool> switch_word(std::string_view text) {
  std::string word(text);
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
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

std::string join(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += between;
    out += word;
  }
  return out;
}

Result<std::int64_t> whole_number(const std::string& name, const std::string& text, std::int64_t least,
                                  std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size())
    return usage(name + ": '" + text + "' is not a number");
  if (value < least || value > most) {
    return mistake(name + ": " + text + " is out of range",
                   "it goes from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

Result<std::uint64_t> byte_size(const std::string& name, const std::string& text) {
  constexpr std::string_view units = "KMGT";
  constexpr double largest = 1ULL << 50;
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (const auto unit = *end == '\0' ? std::string_view::npos : units.find(*end); unit != units.npos) {
    value *= static_cast<double>(std::uint64_t{1} << (10 * (unit + 1)));
    ++end;
  }
  if (end == text.c_str() || *end != '\0' || !(value >= 1 && value <= largest))
    return mistake(name + ": '" + text + "' is no size", "give bytes, or for example 512M");
  return static_cast<std::uint64_t>(value);
}

}  // namespace dlaunch::launcher
