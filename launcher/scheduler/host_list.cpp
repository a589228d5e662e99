#include "launcher/scheduler/host_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

namespace dlaunch::launcher {
namespace {

constexpr int deepest = 8;                     // brackets in brackets
constexpr std::size_t longest_list = 1 << 20;  // bytes
constexpr std::size_t longest_name = 255;      // DNS

using Names = std::vector<std::string>;

class Expander {
 public:
  Expander(std::string_view list, std::size_t most) : list_(list), most_(most) {}

  Result<Names> expand() {
    if (list_.size() > longest_list) return too_many();
    return list(list_, 0);
  }

 private:
  // "a,b[1-2]": items separated by commas outside of brackets.
  Result<Names> list(std::string_view text, int depth) {
    Names out;
    for (std::string_view rest = text;;) {
      const std::size_t end = top_level_comma(rest);
      const std::string_view item = rest.substr(0, end);
      if (item.empty()) return wrong("a name is missing in", text);
      auto names = depth > 0 && is_range(item) ? range(item) : product(item, depth);
      if (!names) return names;
      if (out.size() + names->size() > most_) return too_many();
      out.insert(out.end(), std::make_move_iterator(names->begin()), std::make_move_iterator(names->end()));
      if (end == std::string_view::npos) return out;
      rest.remove_prefix(end + 1);
    }
  }

  // "rack[1-2]n[1-4]-ib": each bracket's choices; the last varies fastest.
  Result<Names> product(std::string_view item, int depth) {
    Names out{""};
    while (!item.empty()) {
      const std::size_t open = item.find_first_of("[]");
      if (open == std::string_view::npos || item[open] == '[') {
        for (std::string& name : out) name.append(item.substr(0, open));
        if (out.front().size() > longest_name) return wrong("too long a name in", item);
      }
      if (open == std::string_view::npos) break;
      if (item[open] == ']') return wrong("a bracket is closed that was not opened, in", list_);
      const std::size_t close = matching(item, open);
      if (close == std::string_view::npos) return wrong("a bracket is not closed in", item);
      if (depth == deepest) return wrong("too many brackets in brackets in", list_);
      auto choices = list(item.substr(open + 1, close - open - 1), depth + 1);
      if (!choices) return choices;
      if (out.size() * choices->size() > most_) return too_many();
      Names longer;
      longer.reserve(out.size() * choices->size());
      for (const std::string& name : out) {
        for (const std::string& choice : *choices) longer.push_back(name + choice);
      }
      out = std::move(longer);
      item.remove_prefix(close + 1);
    }
    return out;
  }

  // "008-12".
  Result<Names> range(std::string_view text) {
    const std::size_t dash = text.find('-');
    const std::string_view first = text.substr(0, dash);
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    if (!parse(first, low) || !parse(text.substr(dash + 1), high))
      return wrong("too large a number in", text);
    if (low > high) return wrong("the range runs backwards:", text);
    if (high - low >= most_) return too_many();
    Names out;
    out.reserve(static_cast<std::size_t>(high - low + 1));
    for (std::uint64_t n = low; n <= high; ++n) {
      std::string digits = std::to_string(n);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      out.push_back(std::move(digits));
    }
    return out;
  }

  static bool is_range(std::string_view text) {
    const std::size_t dash = text.find('-');
    const auto digits = [](std::string_view part) {
      return !part.empty() &&
             std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    };
    return dash != std::string_view::npos && digits(text.substr(0, dash)) && digits(text.substr(dash + 1));
  }

  static bool parse(std::string_view digits, std::uint64_t& into) {
    constexpr std::size_t most_digits = 18;
    if (digits.size() > most_digits) return false;
    return std::from_chars(digits.data(), digits.data() + digits.size(), into).ec == std::errc{};
  }

  static std::size_t top_level_comma(std::string_view text) {
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '[') ++depth;
      if (text[i] == ']') --depth;
      if (text[i] == ',' && depth <= 0) return i;
    }
    return std::string_view::npos;
  }

  static std::size_t matching(std::string_view text, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
      if (text[i] == '[') ++depth;
      if (text[i] == ']' && --depth == 0) return i;
    }
    return std::string_view::npos;
  }

  [[nodiscard]] Error wrong(const std::string& what, std::string_view part) const {
    constexpr std::size_t shown = 80;
    const auto quoted = [](std::string_view text) {
      return "'" + std::string(text.substr(0, shown)) + (text.size() > shown ? "..." : "") + "'";
    };
    return {ErrorKind::invalid, "the list of hosts " + quoted(list_), "", what + " " + quoted(part), ""};
  }
  [[nodiscard]] Error too_many() const {
    return {ErrorKind::limit, "the list of hosts '" + std::string(list_.substr(0, 80)) + "'", "",
            "it has more than " + std::to_string(most_) + " names", ""};
  }

  std::string_view list_;
  std::size_t most_;
};

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view list, std::size_t most) {
  return Expander(list, most).expand();
}

}  // namespace dlaunch::launcher
