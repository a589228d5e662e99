// Reads typed values out of Settings. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/flags/settings.h"
#include "launcher/flags/value_parsers.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// Reads one setting after the other, and keeps the first mistake.
class SettingsReader {
 public:
  explicit SettingsReader(const Settings& settings) : settings_(settings) {}

  [[nodiscard]] const Setting* given(std::string_view flag) const { return find(settings_, flag); }
  [[nodiscard]] bool on(std::string_view flag) const { return given(flag) && given(flag)->value == "true"; }
  // As given; an empty one counts as unset.
  [[nodiscard]] std::optional<std::string> text(std::string_view flag) const {
    const Setting* setting = given(flag);
    return setting && !setting->value.empty() ? std::optional(setting->value) : std::nullopt;
  }
  // A host's name or address; an IPv6 address may have brackets, as torchrun requires.
  [[nodiscard]] std::optional<std::string> host(std::string_view flag) const {
    std::optional<std::string> given = text(flag);
    const bool in_brackets = given && given->size() > 2 && given->front() == '[' && given->back() == ']';
    return in_brackets ? given->substr(1, given->size() - 2) : given;
  }
  std::optional<int> integer(std::string_view flag, int least, int most) {
    const Setting* setting = given(flag);
    return setting ? keep(number(setting->from, setting->value, least, most)) : std::nullopt;
  }
  std::optional<std::uint64_t> size(std::string_view flag) {
    const Setting* setting = given(flag);
    return setting ? keep(byte_size(setting->from, setting->value)) : std::nullopt;
  }
  std::optional<Duration> duration(std::string_view flag) {
    const Setting* setting = given(flag);
    return setting ? keep(seconds(setting->from, setting->value)) : std::nullopt;
  }
  std::optional<Duration> positive_duration(std::string_view flag, std::chrono::seconds most = longest_time) {
    const Setting* setting = given(flag);
    return setting ? keep(positive_seconds(setting->from, setting->value, most)) : std::nullopt;
  }
  std::optional<std::string> one_of(std::string_view flag, const std::vector<std::string>& choices) {
    const Setting* setting = given(flag);
    return setting ? keep(choice(setting->from, setting->value, choices)) : std::nullopt;
  }

  template <class T>
  std::optional<T> keep(Result<T> result) {
    if (result) return std::move(*result);
    fail(std::move(result).error());
    return std::nullopt;
  }
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  [[nodiscard]] std::optional<Error>& error() { return error_; }

 private:
  const Settings& settings_;
  std::optional<Error> error_;
};

inline std::string as_given(const Setting& setting) { return setting.from + "=" + setting.value; }

}  // namespace dlaunch::launcher
