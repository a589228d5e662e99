#include "launcher/options/rdzv_conf.h"

#include <algorithm>
#include <map>

#include "launcher/flags/spelling.h"
#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {
namespace {

// What torchrun does when only one of the two is given.
constexpr Duration usual_keep_alive = std::chrono::seconds(5);
constexpr int usual_keep_alive_attempts = 3;

// People and operators alike set these, so those without effect are accepted.
const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> known{"join_timeout",
                                              "timeout",
                                              "last_call_timeout",
                                              "close_timeout",
                                              "heartbeat_timeout",
                                              "keep_alive_interval",
                                              "keep_alive_max_attempt",
                                              "read_timeout",
                                              "cas_backoff_max_seconds",
                                              "is_host",
                                              "store_type",
                                              "etcd_prefix",
                                              "protocol",
                                              "ssl_cert",
                                              "ssl_cert_key",
                                              "ca_cert"};
  return known;
}

bool contains(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// What these bound in torchrun does not exist here: no polling, no closing by a key, no store but our own.
bool has_no_effect(const std::string& key) {
  return contains(
      {"close_timeout", "heartbeat_timeout", "read_timeout", "cas_backoff_max_seconds", "store_type"}, key);
}

// `name`: of the key, for messages.
Result<void> check_store(const std::string& name, const std::string& key, const std::string& value) {
  if (key == "store_type" && value == "file") {
    return usage(name + "=file: nodes cannot meet by a file here", "",
                 "use --rdzv-endpoint=HOST:PORT; the agent on that host serves the store");
  }
  if (key == "protocol" && value != "http")
    return usage(name + ": etcd is spoken to by http only", "",
                 "give an endpoint that serves it without TLS");
  if (key == "ssl_cert" || key == "ssl_cert_key" || key == "ca_cert") {
    return usage(name + ": etcd is spoken to without TLS only", "",
                 "give an endpoint that serves it so, on a network that you trust");
  }
  return {};
}

bool is_time(const std::string& key) {
  return contains({"timeout", "join_timeout", "last_call_timeout", "keep_alive_interval"}, key);
}

// What the single entries say.
struct Entries {
  std::map<std::string, Duration> times;
  std::optional<int> attempts;
};

Result<void> take_value(const std::string& name, const std::string& key, const std::string& value,
                        Entries& entries, RdzvConf& conf) {
  if (auto can = check_store(name, key, value); !can) return can;
  if (is_time(key)) {
    auto time = seconds(name, value);
    if (!time) return std::move(time).error();
    entries.times[key] = *time;
  } else if (key == "etcd_prefix") {
    conf.etcd_prefix = value;
  } else if (key == "keep_alive_max_attempt") {
    auto count = number(name, value, 1, 1'000'000);
    if (!count) return std::move(count).error();
    entries.attempts = *count;
  } else if (key == "is_host") {
    conf.hosts_endpoint = switch_word(value);
    if (!conf.hosts_endpoint) return usage(name + ": '" + value + "' is neither true nor false");
  }
  return {};
}

}  // namespace

Result<RdzvConf> parse_rdzv_conf(const Setting& setting) {
  RdzvConf conf;
  Entries entries;
  for (const std::string& entry : comma_list(setting.value)) {
    const auto equals = entry.find('=');
    const std::string key = entry.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : entry.substr(equals + 1);
    if (key.empty() || value.empty())
      return usage(setting.from + ": '" + entry + "' is not KEY=VALUE", "", "write join_timeout=600,...");
    const std::string name = setting.from + ": " + key;
    if (auto taken = take_value(name, key, value, entries, conf); !taken) return std::move(taken).error();
    if (has_no_effect(key)) conf.warnings.push_back(name + " has no effect here");
    if (contains(known_keys(), key)) continue;
    const std::string near = nearest(key, known_keys());
    conf.warnings.push_back(setting.from + ": '" + key + "' is not known and has no effect" +
                            (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  const auto time = [&](const char* key) -> std::optional<Duration> {
    const auto found = entries.times.find(key);
    return found == entries.times.end() ? std::nullopt : std::optional(found->second);
  };
  conf.join_timeout = time("join_timeout") ? time("join_timeout") : time("timeout");
  conf.last_call = time("last_call_timeout");
  if (const auto interval = time("keep_alive_interval"); interval || entries.attempts)
    conf.node_timeout =
        interval.value_or(usual_keep_alive) * entries.attempts.value_or(usual_keep_alive_attempts);
  return conf;
}

}  // namespace dlaunch::launcher
