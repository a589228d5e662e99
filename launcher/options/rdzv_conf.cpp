#include "launcher/options/rdzv_conf.h"

#include <algorithm>
#include <array>
#include <map>

#include "launcher/flags/spelling.h"
#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {
namespace {

// torchrun's values if only one of the two is given.
constexpr Duration usual_keep_alive = std::chrono::seconds(5);
constexpr int usual_keep_alive_attempts = 3;

// One KEY=VALUE of the flag.
struct Entry {
  std::string name;  // where it was given, for messages: "--rdzv-conf: timeout"
  std::string key;
  std::string value;
};

// What the entries set.
struct Values {
  RdzvConf conf;
  std::map<std::string, Duration> times;
  std::optional<int> attempts;
};

Result<void> take_time(const Entry& entry, Values& values) {
  auto time = seconds(entry.name, entry.value);
  if (!time) return std::move(time).error();
  values.times[entry.key] = *time;
  return {};
}

Result<void> take_attempts(const Entry& entry, Values& values) {
  auto count = number(entry.name, entry.value, 1, 1'000'000);
  if (!count) return std::move(count).error();
  values.attempts = *count;
  return {};
}

Result<void> take_is_host(const Entry& entry, Values& values) {
  values.conf.hosts_endpoint = switch_word(entry.value);
  if (!values.conf.hosts_endpoint)
    return usage(entry.name + ": '" + entry.value + "' is neither true nor false");
  return {};
}

Result<void> take_etcd_prefix(const Entry& entry, Values& values) {
  values.conf.etcd_prefix = entry.value;
  return {};
}

// What this key limits in torchrun does not exist here: no polling, no key that closes a job.
Result<void> ignore(const Entry& entry, Values& values) {
  values.conf.warnings.push_back(entry.name + " has no effect here");
  return {};
}

Result<void> check_store_type(const Entry& entry, Values& values) {
  if (entry.value != "file") return ignore(entry, values);
  return usage(entry.name + "=file: the nodes of dlaunch cannot meet through a file", "",
               "use --rdzv-endpoint=HOST:PORT; the agent on that host serves the store");
}

Result<void> check_protocol(const Entry& entry, Values&) {
  if (entry.value == "http") return {};
  return usage(entry.name + ": dlaunch reaches etcd by http only", "",
               "name an endpoint without TLS, on a network that you trust");
}

Result<void> refuse_tls(const Entry& entry, Values&) {
  return usage(entry.name + ": dlaunch reaches etcd without TLS only", "",
               "name an endpoint without TLS, on a network that you trust");
}

struct Key {
  const char* name;
  Result<void> (*effect)(const Entry& entry, Values& values);
};

// Users and Kubernetes operators set these, so keys without effect are accepted.
constexpr std::array keys{Key{"join_timeout", take_time},
                          Key{"timeout", take_time},
                          Key{"last_call_timeout", take_time},
                          Key{"close_timeout", ignore},
                          Key{"heartbeat_timeout", ignore},
                          Key{"keep_alive_interval", take_time},
                          Key{"keep_alive_max_attempt", take_attempts},
                          Key{"read_timeout", ignore},
                          Key{"cas_backoff_max_seconds", ignore},
                          Key{"is_host", take_is_host},
                          Key{"store_type", check_store_type},
                          Key{"etcd_prefix", take_etcd_prefix},
                          Key{"protocol", check_protocol},
                          Key{"ssl_cert", refuse_tls},
                          Key{"ssl_cert_key", refuse_tls},
                          Key{"ca_cert", refuse_tls}};

std::string unknown_key(const std::string& from, const std::string& key) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const Key& known : keys) names.emplace_back(known.name);
  const std::string near = nearest(key, names);
  return from + ": the unknown key '" + key + "' has no effect" +
         (near.empty() ? "" : "; did you mean " + near + "?");
}

RdzvConf conf_of(Values values) {
  const auto time = [&](const char* key) -> std::optional<Duration> {
    const auto found = values.times.find(key);
    return found == values.times.end() ? std::nullopt : std::optional(found->second);
  };
  RdzvConf& conf = values.conf;
  conf.join_timeout = time("join_timeout") ? time("join_timeout") : time("timeout");
  conf.last_call = time("last_call_timeout");
  if (const auto interval = time("keep_alive_interval"); interval || values.attempts)
    conf.node_timeout =
        interval.value_or(usual_keep_alive) * values.attempts.value_or(usual_keep_alive_attempts);
  return std::move(conf);
}

}  // namespace

Result<RdzvConf> parse_rdzv_conf(const Setting& setting) {
  Values values;
  for (const std::string& text : comma_list(setting.value)) {
    const auto equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (key.empty() || value.empty())
      return usage(setting.from + ": '" + text + "' is not KEY=VALUE", "", "write join_timeout=600,...");
    const auto* const known =
        std::find_if(keys.begin(), keys.end(), [&](const Key& one) { return one.name == key; });
    if (known == keys.end()) {
      values.conf.warnings.push_back(unknown_key(setting.from, key));
    } else if (auto taken = known->effect({setting.from + ": " + key, key, value}, values); !taken) {
      return std::move(taken).error();
    }
  }
  return conf_of(std::move(values));
}

}  // namespace dlaunch::launcher
