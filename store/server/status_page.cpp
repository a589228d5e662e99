#include "store/server/status_page.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "store/protocol/wire.h"

namespace dlaunch::store {
namespace {

struct Metric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  double value = 0;
};

void add(std::string& text, std::string_view name, std::string_view labels, double value) {
  // Counts are integers; a fraction would be noise.
  const auto whole = static_cast<std::uint64_t>(value);
  text.append(name).append(labels).append(" ");
  text += static_cast<double>(whole) == value ? std::to_string(whole) : std::to_string(value);
  text += '\n';
}

void announce(std::string& text, std::string_view name, std::string_view type, std::string_view help) {
  text.append("# HELP ").append(name).append(" ").append(help).append("\n");
  text.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

RequestKind kind_at(std::size_t i) { return static_cast<RequestKind>(i); }

}  // namespace

std::string status_json(const StoreStats& stats, const StoreLimits& limits, Duration uptime) {
  nlohmann::ordered_json requests = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < stats.requests.size(); ++i) {
    requests[std::string(name_of(kind_at(i)))] = stats.requests[i];
  }
  const nlohmann::ordered_json page = {
      {"version", DLAUNCH_VERSION},
      {"uptime_seconds", to_seconds(uptime)},
      {"connections",
       {{"now", stats.connections},
        {"undecided", stats.undecided},
        {"total", stats.connections_total},
        {"turned_away", stats.rejected}}},
      {"keys", stats.keys},
      {"bytes", stats.bytes},
      {"bytes_limit", limits.total_bytes},
      {"unread_bytes", stats.unread_bytes},
      {"waiting", stats.waiting},
      {"rounds", stats.rounds},
      {"requests", requests},
  };
  return page.dump(2) + "\n";
}

std::string metrics_text(const StoreStats& stats, const StoreLimits& limits, Duration uptime) {
  const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
  const std::array metrics = {
      Metric{"dlaunch_store_uptime_seconds", "gauge", "Time since the server began.", to_seconds(uptime)},
      Metric{"dlaunch_store_connections", "gauge", "Connected store clients.", number(stats.connections)},
      Metric{"dlaunch_store_undecided_connections", "gauge", "Connections that have sent nothing yet.",
             number(stats.undecided)},
      Metric{"dlaunch_store_connections_total", "counter", "Store clients that ever connected.",
             number(stats.connections_total)},
      Metric{"dlaunch_store_turned_away_total", "counter", "Store clients rejected for what they sent.",
             number(stats.rejected)},
      Metric{"dlaunch_store_keys", "gauge", "Keys stored.", number(stats.keys)},
      Metric{"dlaunch_store_bytes", "gauge",
             "Bytes held: keys, values, waits, partial requests, unread answers.", number(stats.bytes)},
      Metric{"dlaunch_store_unread_bytes", "gauge", "Bytes of answers that clients have not read.",
             number(stats.unread_bytes)},
      Metric{"dlaunch_store_limit_bytes", "gauge", "Most bytes that may be held.",
             number(limits.total_bytes)},
      Metric{"dlaunch_store_waiting_clients", "gauge", "Clients that wait for keys or at a barrier.",
             number(stats.waiting)},
      Metric{"dlaunch_store_rounds_total", "counter", "Times the store was emptied for a new round.",
             number(stats.rounds)},
  };
  std::string text;
  for (const Metric& metric : metrics) {
    announce(text, metric.name, metric.type, metric.help);
    add(text, metric.name, "", metric.value);
  }
  constexpr std::string_view requests = "dlaunch_store_requests_total";
  announce(text, requests, "counter", "Requests served, by kind.");
  for (std::size_t i = 0; i < stats.requests.size(); ++i) {
    add(text, requests, "{kind=\"" + std::string(name_of(kind_at(i))) + "\"}", number(stats.requests[i]));
  }
  return text;
}

HttpAnswer StatusPage::on_http_get(std::string_view path) {
  if (server_ == nullptr) return {503, "text/plain; charset=utf-8", "not ready\n"};
  const Duration uptime = clock_.now() - began_;
  const std::size_t end = std::min(path.find('?'), path.size());
  const std::string_view query = path.substr(std::min(end + 1, path.size()));
  path = path.substr(0, end);
  if (path == "/status") return {200, "application/json", status_json(server_->stats(), limits_, uptime)};
  if (path == "/metrics")
    return {200, "text/plain; version=0.0.4; charset=utf-8",
            metrics_text(server_->stats(), limits_, uptime) + (more_metrics_ ? more_metrics_() : "")};
  if (const auto found = more_.find(path); found != more_.end())
    return {200, found->second.content_type, found->second.text(query)};
  std::string known = "known pages: /healthz, ";
  for (const auto& [name, page] : more_) known += name + ", ";
  known += "/status and /metrics";
  return {404, "text/plain; charset=utf-8", known + "\n"};
}

}  // namespace dlaunch::store
