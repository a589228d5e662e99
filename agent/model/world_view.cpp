#include "agent/model/world_view.h"

#include <map>

#include "agent/model/json_fields.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"
#include "store/base/time.h"

namespace dlaunch::agent {
namespace {

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

void fields(auto& io, Of<NodeView> auto& node) {
  io("node_rank", node.node_rank);
  io("host", node.host);
  io("workers", node.workers);
  io("first_rank", node.first_rank);
  io("state", node.state);
}

void fields(auto& io, Of<IncidentView> auto& incident) {
  io("number", incident.number);
  io("after", incident.after_s);
  io("text", incident.text);
}

void fields(auto& io, Of<WorldView> auto& view) {
  io("job", view.job);
  io("endpoint", view.endpoint);
  io("state", view.state);
  io("waiting_for", view.waiting_for);
  io("round", view.round);
  io("world_size", view.world_size);
  io("min_nodes", view.min_nodes);
  io("max_nodes", view.max_nodes);
  io("restarts_used", view.restarts_used);
  io("max_restarts", view.max_restarts);
  io("age", view.age_s);
  io("nodes", view.nodes);
  io("incidents", view.incidents);
  io("collectives", view.collectives);
}

std::string to_json(const WorldView& view) { return to_text(JsonWriter::json_of(view)) + "\n"; }

Result<WorldView> world_view_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("job"))
    return Error{ErrorKind::invalid, "no job's status", "", "it is not what dlaunch answers", ""};
  WorldView view;
  JsonReader::read(json, view);  // what another version does not send, or sends otherwise, is left out
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
