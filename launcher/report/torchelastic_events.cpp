#include "launcher/report/torchelastic_events.h"

#include <nlohmann/json.hpp>

namespace dlaunch::launcher {
namespace {

using agent::Event;
using agent::EventKind;
using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json or_null(int number) { return number >= 0 ? Json(number) : Json(); }
Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

enum class About : std::uint8_t { job, node, worker };

// torchelastic's names for an event; if it has none, as for a hang, similar ones of ours.
struct Names {
  About about;
  const char* name;   // of a node's event
  const char* state;  // of the job, the node or the worker
};

// If a node left because of a failure, or the job failed, the event has a text with the reason.
Names names_for(const Event& event) {
  switch (event.kind) {
    case EventKind::joined:
      return {About::node, "joined", "INIT"};
    case EventKind::world:
      return {About::node, "world", "RUNNING"};
    case EventKind::left:
      return {About::node, "left", event.text.empty() ? "SUCCEEDED" : "FAILED"};
    case EventKind::lost:
      return {About::node, "lost", "FAILED"};
    case EventKind::restarted:
      return {About::job, "", "RESTARTED"};
    case EventKind::stalled:
      return {About::job, "", "STALLED"};
    case EventKind::hung:
      return {About::job, "", "HUNG"};
    case EventKind::ended:
      return {About::job, "", event.text.empty() ? "SUCCEEDED" : "FAILED"};
    case EventKind::started:
      return {About::worker, "", "START"};
    case EventKind::failed:
      return {About::worker, "", "FAILED"};
  }
  return {About::job, "", ""};
}

Json rdzv_event(const Event& event, const Names& names, const EventFacts& facts) {
  std::string message = event.text;
  if (event.kind == EventKind::world) {
    message = "round " + std::to_string(event.round) + ": " + std::to_string(event.nodes) + " nodes, " +
              std::to_string(event.world_size) + " workers";
  }
  return {{"name", names.name},
          {"run_id", facts.run_id},
          {"message", message},
          {"hostname", event.host.empty() ? facts.host : event.host},
          {"pid", event.pid},
          {"node_state", names.state},
          {"master_endpoint", facts.master_endpoint},
          {"rank", or_null(event.node_rank)},
          {"local_id", Json()},
          {"error_trace", ""}};
}

// The inner metadata is a string of JSON. Values of one worker are lists of one element.
std::string inner_metadata(const Event& event, bool is_worker, const EventFacts& facts) {
  Json json{{"group_world_size", event.nodes > 0 ? Json(event.nodes) : Json()},
            {"entry_point", facts.entry_point}};
  if (is_worker) {
    json["local_rank"] = Json::array({or_null(event.local_rank)});
    json["role_rank"] = Json::array({or_null(event.role_rank)});
    json["role_world_size"] = Json::array({event.role_world_size});
    json["exit_code"] = Json::array({Json()});
    json["worker_pid"] = Json::array({event.pid});
  }
  return dump(json);
}

// For a worker it is a string of JSON, in the format of its error file.
Json raw_error(const Event& event, bool is_worker) {
  return event.text.empty() || !is_worker ? or_null(event.text) : Json(dump(Json{{"message", event.text}}));
}

}  // namespace

EventFacts event_facts_of(const JobPlan& plan) {
  const bool is_fixed = plan.node.node_rank >= 0 && plan.etcd_key.empty();
  return {plan.job.id,
          plan.node.role,
          plan.node.host,
          plan.script.empty() ? plan.program : plan.script,
          !plan.etcd_key.empty() ? "etcd"
          : is_fixed             ? "static"
                                 : "c10d",
          to_string(plan.job.master)};
}

std::string torchelastic_event(const Event& event, const EventFacts& facts, std::int64_t unix_ms) {
  const Names names = names_for(event);
  if (names.about == About::node) return dump(rdzv_event(event, names, facts)) + "\n";
  const bool is_worker = names.about == About::worker;
  const std::string state = names.state;
  const Json metadata{{"run_id", facts.run_id},
                      {"global_rank", or_null(event.rank)},
                      {"group_rank", or_null(event.node_rank)},
                      {"worker_id", is_worker ? Json(std::to_string(event.local_rank)) : Json()},
                      {"role", facts.role},
                      {"hostname", event.host.empty() ? facts.host : event.host},
                      {"state", state},
                      {"total_run_time", 0},
                      {"rdzv_backend", facts.rdzv_backend},
                      {"raw_error", raw_error(event, is_worker)},
                      {"metadata", inner_metadata(event, is_worker, facts)},
                      {"agent_restarts", event.kind == EventKind::restarted ? event.number : event.restarts},
                      {"duration_ms", Json()}};
  return dump(Json{{"name", "torchelastic.worker.status." + state},
                   {"source", is_worker ? "WORKER" : "AGENT"},
                   {"timestamp", unix_ms},
                   {"metadata", metadata}}) +
         "\n";
}

}  // namespace dlaunch::launcher
