#include <algorithm>

#include "launcher/flags/value_parsers.h"
#include "launcher/options/options_from_settings.h"

namespace dlaunch::launcher {
namespace {

using agent::StreamMap;
using agent::Streams;

constexpr int most_ranks = 65'536;

Result<Streams> streams(const Setting& setting, const std::string& text) {
  const bool known = text.size() == 1 && text[0] >= '0' && text[0] <= '3';
  if (!known) {
    return usage(setting.from + ": '" + text + "' is not 0 (nothing), 1 (stdout), 2 (stderr) or 3 (both)", "",
                 "write one of them, or RANK:0-3,... for some local ranks");
  }
  return static_cast<Streams>(text[0] - '0');
}

// "3", or "0:1,12:3". If a rank is named twice, the last entry counts.
Result<StreamMap> stream_map(const Setting* setting) {
  StreamMap map;
  if (!setting || setting->value.empty()) return map;
  if (setting->value.find(':') == std::string::npos) {
    auto all = streams(*setting, setting->value);
    if (!all) return std::move(all).error();
    map.all = *all;
    return map;
  }
  for (const std::string& entry : comma_list(setting->value)) {
    const auto colon = entry.find(':');
    if (colon == std::string::npos)
      return usage(setting->from + ": '" + entry + "' names no local rank", "", "write RANK:0-3,...");
    auto rank = number(setting->from, entry.substr(0, colon), 0, most_ranks - 1);
    if (!rank) return std::move(rank).error();
    auto which = streams(*setting, entry.substr(colon + 1));
    if (!which) return std::move(which).error();
    map.some[*rank] = *which;
  }
  return map;
}

Result<std::vector<int>> rank_list(const Setting* setting) {
  std::vector<int> ranks;
  if (!setting) return ranks;
  for (const std::string& part : comma_list(setting->value)) {
    auto rank = number(setting->from, part, 0, most_ranks - 1);
    if (!rank) return std::move(rank).error();
    ranks.push_back(*rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// ",," is a comma in a text. An empty text would be in every line.
Result<std::vector<std::string>> texts(const Setting* setting) {
  if (!setting) return std::vector<std::string>{};
  std::vector<std::string> parts = comma_list(setting->value, true);
  if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
    return usage(setting->from + ": one of the texts is empty", "",
                 "write TEXT,TEXT; two commas stand for a comma in a text");
  }
  return parts;
}

}  // namespace

Result<agent::LogOptions> parse_log_flags(const Settings& settings) {
  agent::LogOptions log;
  if (const Setting* dir = find(settings, "log-dir")) log.dir = dir->value;
  auto redirects = stream_map(find(settings, "redirects"));
  if (!redirects) return std::move(redirects).error();
  log.redirects = std::move(*redirects);
  auto tee = stream_map(find(settings, "tee"));
  if (!tee) return std::move(tee).error();
  log.tee = std::move(*tee);
  auto filter = rank_list(find(settings, "local-ranks-filter"));
  if (!filter) return std::move(filter).error();
  log.local_ranks_filter = std::move(*filter);
  auto ranks = rank_list(find(settings, "global-ranks-filter"));
  if (!ranks) return std::move(ranks).error();
  log.global_ranks_filter = std::move(*ranks);
  auto out = texts(find(settings, "duplicate-stdout-filters"));
  if (!out) return std::move(out).error();
  log.duplicate_stdout_filters = std::move(*out);
  auto err = texts(find(settings, "duplicate-stderr-filters"));
  if (!err) return std::move(err).error();
  log.duplicate_stderr_filters = std::move(*err);
  if (const Setting* prefix = find(settings, "log-line-prefix-template")) log.line_prefix = prefix->value;
  if (const Setting* size = find(settings, "log-max-size")) {
    auto bytes = byte_size(size->from, size->value);
    if (!bytes) return std::move(bytes).error();
    log.max_bytes = *bytes;
  }
  if (const Setting* keep = find(settings, "log-keep")) {
    auto count = number(keep->from, keep->value, 0, 1000);
    if (!count) return std::move(count).error();
    log.keep = *count;
  }
  return log;
}

}  // namespace dlaunch::launcher
