#include "agent/model/world_view.h"

#include <map>
#include <nlohmann/json.hpp>

#include "store/base/pluralize.h"
#include "store/base/sanitize.h"
#include "store/base/time.h"

namespace dlaunch::agent {
namespace {

using Json = nlohmann::ordered_json;

// A field that is missing, or of another type, is left as it is.
template <class T>
void take(const Json& json, const char* name, T& value) {
  const auto found = json.find(name);
  if (found == json.end()) return;
  if constexpr (std::is_same_v<T, std::string>) {
    if (found->is_string()) value = found->template get<std::string>();
  } else {
    if (found->is_number()) value = found->template get<T>();
  }
}

template <class T, class F>
void take_list(const Json& json, const char* name, std::vector<T>& items, F&& each) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array()) return;
  for (const Json& item : *found) {
    if (item.is_object()) each(item, items.emplace_back());
  }
}

std::string ranks_of(const NodeView& node) {
  if (node.first_rank < 0) return "";
  const int last = node.first_rank + node.workers - 1;
  return node.first_rank == last ? "rank " + std::to_string(last)
                                 : "ranks " + std::to_string(node.first_rank) + "-" + std::to_string(last);
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

Duration in_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

}  // namespace

std::string to_json(const WorldView& view) {
  Json nodes = Json::array();
  for (const NodeView& node : view.nodes) {
    nodes.push_back({{"node_rank", node.node_rank},
                     {"host", node.host},
                     {"workers", node.workers},
                     {"first_rank", node.first_rank},
                     {"state", node.state}});
  }
  Json incidents = Json::array();
  for (const IncidentView& one : view.incidents)
    incidents.push_back({{"number", one.number}, {"after", one.after_s}, {"text", one.text}});
  const Json json{{"job", view.job},
                  {"endpoint", view.endpoint},
                  {"state", view.state},
                  {"waiting_for", view.waiting_for},
                  {"round", view.round},
                  {"world_size", view.world_size},
                  {"min_nodes", view.min_nodes},
                  {"max_nodes", view.max_nodes},
                  {"restarts_used", view.restarts_used},
                  {"max_restarts", view.max_restarts},
                  {"age", view.age_s},
                  {"nodes", nodes},
                  {"incidents", incidents},
                  {"collectives", view.collectives}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<WorldView> world_view_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("job"))
    return Error{ErrorKind::invalid, "no job's status", "", "it is not what dlaunch answers", ""};
  WorldView view;
  take(json, "job", view.job);
  take(json, "endpoint", view.endpoint);
  take(json, "state", view.state);
  take(json, "waiting_for", view.waiting_for);
  take(json, "round", view.round);
  take(json, "world_size", view.world_size);
  take(json, "min_nodes", view.min_nodes);
  take(json, "max_nodes", view.max_nodes);
  take(json, "restarts_used", view.restarts_used);
  take(json, "max_restarts", view.max_restarts);
  take(json, "age", view.age_s);
  take_list(json, "nodes", view.nodes, [](const Json& item, NodeView& node) {
    take(item, "node_rank", node.node_rank);
    take(item, "host", node.host);
    take(item, "workers", node.workers);
    take(item, "first_rank", node.first_rank);
    take(item, "state", node.state);
  });
  take_list(json, "incidents", view.incidents, [](const Json& item, IncidentView& one) {
    take(item, "number", one.number);
    take(item, "after", one.after_s);
    take(item, "text", one.text);
  });
  if (const auto sentences = json.find("collectives"); sentences != json.end() && sentences->is_array()) {
    for (const Json& sentence : *sentences) {
      if (sentence.is_string()) view.collectives.push_back(sentence.get<std::string>());
    }
  }
  return view;
}

std::string table(const WorldView& view) {
  std::string text = "job " + sanitize_for_terminal(view.job) + " at " +
                     sanitize_for_terminal(view.endpoint) + ": " + sanitize_for_terminal(view.state);
  if (view.round >= 0) {
    text += ", round " + std::to_string(view.round) + " with " + pluralize(view.world_size, "worker") + ", " +
            std::to_string(view.restarts_used) + " of " + pluralize(view.max_restarts, "restart") +
            " used, for " + to_words(in_seconds(view.age_s));
  }
  text += "\n";
  for (const NodeView& node : view.nodes) {
    const std::string name = node.node_rank < 0 ? "node ?" : "node " + std::to_string(node.node_rank);
    const std::string ranks = ranks_of(node);
    const std::string state = sanitize_for_terminal(node.state);
    text += "  " + padded(name, 10) + padded(sanitize_for_terminal(node.host), 20) + " " +
            (ranks.empty() ? state : padded(state, 10) + ranks) + "\n";
  }
  if (!view.waiting_for.empty()) text += "waiting for " + sanitize_for_terminal(view.waiting_for) + "\n";
  for (const IncidentView& one : view.incidents) {
    text += (one.number > 0 ? "restart " + std::to_string(one.number) : std::string("loss")) + " after " +
            to_words(in_seconds(one.after_s)) + ": " + sanitize_for_terminal(one.text) + "\n";
  }
  for (const std::string& sentence : view.collectives) text += sanitize_for_terminal(sentence) + "\n";
  return text;
}

std::string html(const WorldView& view) {
  std::string rows;
  for (const char c : table(view)) {
    if (c == '&') {
      rows += "&amp;";
    } else if (c == '<') {
      rows += "&lt;";
    } else {
      rows += c;
    }
  }
  return "<!doctype html>\n<meta charset=utf-8>\n<meta http-equiv=refresh "
         "content=2>\n<title>dlaunch</title>\n<pre>" +
         rows +
         "</pre>\n<p><a href=/job>/job</a> <a href=/status>/status</a> <a href=/metrics>/metrics</a>\n";
}

std::string metrics(const WorldView& view) {
  std::string text;
  const auto family = [&text](const char* name, const char* help, double value) {
    text.append("# HELP ")
        .append(name)
        .append(" ")
        .append(help)
        .append("\n# TYPE ")
        .append(name)
        .append(" gauge\n");
    text.append(name).append(" ").append(std::to_string(static_cast<std::int64_t>(value))).append("\n");
  };
  family("dlaunch_job_round", "The newest round; -1: none yet.", view.round);
  family("dlaunch_job_world_size", "Workers in it.", view.world_size);
  family("dlaunch_job_running", "1: its workers run.", view.state == "running" ? 1 : 0);
  family("dlaunch_job_waiting", "1: somebody is waited for.", view.waiting_for.empty() ? 0 : 1);
  family("dlaunch_job_restarts_used", "Restarts that counted.", view.restarts_used);
  family("dlaunch_job_restarts_limit", "--max-restarts.", view.max_restarts);
  family("dlaunch_job_age_seconds", "Since the first round began.", view.age_s);
  std::map<std::string, int> states;
  for (const NodeView& node : view.nodes) ++states[node.state];
  text += "# HELP dlaunch_job_nodes Nodes by what they do.\n# TYPE dlaunch_job_nodes gauge\n";
  for (const auto& [state, count] : states)
    text += "dlaunch_job_nodes{state=\"" + state + "\"} " + std::to_string(count) + "\n";
  return text;
}

}  // namespace dlaunch::agent
