#include "launcher/remote/host_file.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/host_list.h"

namespace dlaunch::launcher {
namespace {

constexpr std::size_t most_hosts = 65'536;
constexpr int most_slots = 65'536;
constexpr std::string_view blanks = " \t\r\v\f";

Error not_a_host(const std::string& from, std::string_view text) {
  return usage(from + ": '" + std::string(text.substr(0, 80)) + "' is not a host", "",
               "write HOST, HOST:WORKERS, or ranges as in node[01-16]");
}

Error too_many(const std::string& from) {
  return {ErrorKind::limit, from + ": there are more than " + std::to_string(most_hosts) + " hosts", "", "",
          ""};
}

// Whether ssh takes this for a host and nothing else, above all not for an option.
bool may_be_host(std::string_view name) {
  constexpr std::string_view others = "._-:%";
  // A single colon is not part of an address: it precedes a port or a number of workers.
  if (std::count(name.begin(), name.end(), ':') == 1) return false;
  const std::size_t at = name.find('@');
  const auto part_is_good = [&](std::string_view part) {
    return !part.empty() && part.front() != '-' &&
           std::all_of(part.begin(), part.end(), [&](unsigned char c) {
             return std::isalnum(c) != 0 || others.find(static_cast<char>(c)) != std::string_view::npos;
           });
  };
  if (at == std::string_view::npos) return part_is_good(name);
  return part_is_good(name.substr(0, at)) && part_is_good(name.substr(at + 1));
}

// Collects the hosts; adds up the slots of a host that is listed twice.
class Hosts {
 public:
  explicit Hosts(std::string from) : from_(std::move(from)) {}

  Result<void> add_list(std::string_view list, std::optional<int> slots) {
    for (const std::string_view item : items_of(list)) {
      if (auto added = add_item(item, slots); !added) return added;
    }
    return {};
  }

  void at(std::string from) { from_ = std::move(from); }
  [[nodiscard]] std::vector<HostEntry> take() { return std::move(entries_); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

 private:
  // "c[01-16]:4": one or several of equal size.
  Result<void> add_item(std::string_view item, std::optional<int> slots) {
    std::string_view name = item;
    std::string_view count;
    if (const std::size_t close = address_end(item); close != std::string_view::npos) {
      name = item.substr(1, close - 1);
      count = item.substr(close + 1);
      if (!count.empty() && count.front() != ':') return not_a_host(from_, item);
      return add_names({std::string(name)}, count, slots, item);
    }
    if (const std::size_t colon = item.rfind(':'); !is_ipv6(item) && colon != std::string_view::npos) {
      name = item.substr(0, colon);
      count = item.substr(colon);
    }
    if (name.find_first_of("[]") == std::string_view::npos)
      return add_names({std::string(name)}, count, slots, item);
    auto names = expand_hosts(name, most_hosts);
    if (!names && names.error().kind == ErrorKind::limit) return too_many(from_);
    if (!names) return not_a_host(from_, item);
    return add_names(*names, count, slots, item);
  }

  Result<void> add_names(const std::vector<std::string>& names, std::string_view count,
                         std::optional<int> slots, std::string_view item) {
    if (!count.empty()) {
      if (slots) return usage(from_ + ": '" + std::string(item) + "' gives its slots twice", "", "");
      auto said = number(from_ + ": workers", std::string(count.substr(1)), 1, most_slots);
      if (!said) return std::move(said).error();
      slots = *said;
    }
    for (const std::string& name : names) {
      if (!may_be_host(name)) return not_a_host(from_, name.empty() ? item : name);
      if (auto added = add(name, slots.value_or(0)); !added) return added;
    }
    return {};
  }

  Result<void> add(const std::string& name, int slots) {
    const auto [known, is_new] = places_.emplace(name, entries_.size());
    if (is_new) {
      if (entries_.size() == most_hosts) return too_many(from_);
      entries_.push_back({name, slots});
      return {};
    }
    HostEntry& entry = entries_[known->second];
    entry.slots = std::max(entry.slots, 1) + std::max(slots, 1);
    if (entry.slots > most_slots)
      return usage(from_ + ": " + name + " has more than " + std::to_string(most_slots) + " slots", "", "");
    return {};
  }

  static bool is_ipv6(std::string_view text) { return std::count(text.begin(), text.end(), ':') > 1; }

  // The bracket that ends an address of IPv6: "[fe80::1]:2".
  static std::size_t address_end(std::string_view item) {
    if (item.empty() || item.front() != '[') return std::string_view::npos;
    const std::size_t close = item.find(']');
    return close != std::string_view::npos && is_ipv6(item.substr(0, close)) ? close : std::string_view::npos;
  }

  std::string from_;
  std::vector<HostEntry> entries_;
  std::map<std::string, std::size_t> places_;
};

// "c07 slots = 4" -> "c07", "slots=4".
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool joins = false;
  while (true) {
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(blanks), line.size());
    const std::string_view word = line.substr(0, end);
    if (!words.empty() && (joins || word.front() == '=')) {
      words.back() += word;
    } else {
      words.emplace_back(word);
    }
    joins = word.back() == '=';
    line.remove_prefix(end);
  }
}

Result<void> add_line(Hosts& hosts, const std::vector<std::string>& words, const std::string& from) {
  std::optional<int> slots;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = std::min(words[i].find('='), words[i].size() - 1);
    const std::string key = words[i].substr(0, words[i].find('='));
    const bool is_slots = key == "slots";
    if (!is_slots && key != "max_slots" && key != "max-slots") {
      return usage(from + ": '" + words[i].substr(0, 80) + "' is not understood", "",
                   "a line is HOST, HOST slots=N or HOST:N");
    }
    auto n = number(std::string(from).append(": ").append(key), words[i].substr(equals + 1), 1, most_slots);
    if (!n) return std::move(n).error();
    if (is_slots) slots = *n;
  }
  return hosts.add_list(words.front(), slots);
}

}  // namespace

Result<std::vector<HostEntry>> parse_hosts(std::string_view list, const std::string& name) {
  Hosts hosts(name);
  if (auto added = hosts.add_list(list, std::nullopt); !added) return std::move(added).error();
  return hosts.take();
}

Result<std::vector<HostEntry>> parse_host_file(std::string_view text, const std::string& path) {
  Hosts hosts(path);
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string from = path + ", line " + std::to_string(++number);
    const std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    hosts.at(from);
    if (auto added = add_line(hosts, words, from); !added) return std::move(added).error();
  }
  if (hosts.empty()) return usage(path + " names no host", "", "write one host a line");
  return hosts.take();
}

std::vector<std::string_view> items_of(std::string_view list) {
  std::vector<std::string_view> items;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') ++depth;
    if (list[i] == ']') --depth;
    if (list[i] != ',' || depth > 0) continue;
    items.push_back(list.substr(begin, i - begin));
    begin = i + 1;
    depth = 0;
  }
  items.push_back(list.substr(begin));
  return items;
}

std::string bare_host(const std::string& name) {
  const std::size_t at = name.find('@');
  return at == std::string::npos ? name : name.substr(at + 1);
}

}  // namespace dlaunch::launcher
