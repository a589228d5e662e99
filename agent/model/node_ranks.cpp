#include "agent/model/node_ranks.h"

#include <algorithm>
#include <array>

#include "agent/model/diagnosis.h"
#include "agent/model/json_fields.h"

namespace dlaunch::agent {
namespace {

// A shorter wait is no finding: ranks are never at the same place.
constexpr Duration noticed_wait = std::chrono::seconds(3);

std::string describe_entry(const WorkerRecord& record, const WorkerRecord::Entry& entry) {
  std::string text = name_of(entry.operation);
  const WorkerRecord::Group* const group = record.group(entry.group);
  if (page::is_point_to_point(entry.operation)) {
    const int peer = group == nullptr ? -1 : rank_in_job(*group, entry.peer);
    if (peer >= 0)
      text += (entry.operation == page::Operation::send ? " to rank " : " from rank ") + std::to_string(peer);
  } else if (page::is_collective(entry.operation)) {
    text += " #" + std::to_string(entry.sequence);
  }
  if (group != nullptr && !group->name.empty()) text += " of group " + group->name;
  const std::string call_site = record.call_site_of(entry);
  return call_site.empty() ? text : text + " at " + call_site;
}

// The oldest operation that it is in, or else the last one.
void add_operation(RankView& view, const WorkerRecord& record, std::int64_t now_ns) {
  const auto since = [&](std::int64_t from_ns) { return to_seconds(between(from_ns, now_ns)); };
  const auto inside = [&](std::string operation, std::int64_t from_ns) {
    view.inside = true;
    view.operation = std::move(operation);
    view.operation_s = since(from_ns);
  };
  const auto open = std::ranges::find(record.entries, page::Record::started, &WorkerRecord::Entry::state);
  if (record.forming_ns > 0) return inside("init_process_group", record.forming_ns);
  if (open != record.entries.end()) return inside(describe_entry(record, *open), open->created_ns);
  if (record.key_since_ns > 0)
    return inside("the wait for the key '" + record.key + "' of a store", record.key_since_ns);
  if (const RemoteCall* const call = record.remote.awaited())
    return inside("the call of '" + call->function + "' in worker " + call->worker, call->began_ns);
  if (record.entries.empty()) return;
  view.operation = describe_entry(record, record.entries.back());
  view.operation_s = since(record.entries.back().ended_ns);
}

std::vector<double> seconds_of(const RankTimes& times) {
  std::vector<double> seconds;
  for (const Duration one : times.by_kind) seconds.push_back(to_seconds(one));
  return seconds;
}

std::vector<std::string> findings_of(const std::vector<WorkerLook>& workers, int world_size,
                                     std::int64_t now_ns) {
  std::vector<WorkerSeen> seen;
  for (const WorkerLook& worker : workers) {
    if (worker.record) seen.push_back({*worker.record, worker.condition, worker.doing, {}});
  }
  auto groups = collect_group_progress(seen, world_size, now_ns);
  const auto is_noticed = [](const GroupProgress& group) {
    return std::ranges::any_of(
        group.here, [](const RankProgress& rank) { return rank.inside && rank.waited >= noticed_wait; });
  };
  std::erase_if(groups, [&](const GroupProgress& group) { return !is_noticed(group); });
  return diagnose(std::move(groups)).sentences;
}

}  // namespace

void fields(auto& io, Of<RankView> auto& rank) {
  io.required("rank", rank.rank);
  io("pid", rank.pid);
  io("state", rank.state);
  io("samples", rank.samples);
  io("rate", rank.rate);
  io("memory", rank.memory);
  io("doing", rank.doing);
  io("operation", rank.operation);
  io("inside", rank.inside);
  io("operation_s", rank.operation_s);
  io("came_last", rank.came_last);
  io("late_s", rank.late_s);
  io("last_output", rank.last_output);
  io("last_lines", rank.last_lines);
  io("times", rank.times);
}

void fields(auto& io, Of<RestartView> auto& restart) {
  io("detect", restart.detect);
  io("stop", restart.stop);
  io("decide", restart.decide);
  io("start", restart.start);
  io("first_operation", restart.first_operation);
}

void fields(auto& io, Of<NodeRanks> auto& node) {
  io("host", node.host);
  io("node_rank", node.node_rank);
  io("round", node.round);
  io("period_s", node.period_s);
  io("findings", node.findings);
  io("times", node.times);
  io("goodput", node.goodput);
  io("restarts", node.restarts);
  io("ranks", node.ranks);
}

std::string_view describe(Spent kind) {
  constexpr std::array<std::string_view, spent_kinds> words{
      "starting", "computing", "in operations", "waiting for late ranks", "stopped", "not recorded"};
  return words.at(static_cast<std::size_t>(kind));
}

std::string_view describe(TimeKind kind) {
  constexpr std::array<std::string_view, time_kinds> words{
      "before the first round", "starting",       "computing",    "in operations",
      "waiting for late ranks", "stopped",        "not recorded", "ended before others",
      "stopping workers",       "between rounds", "done"};
  return words.at(static_cast<std::size_t>(kind));
}

void add_times(NodeRanks& node, const JobTimes& times) {
  for (const Duration part : times.sums().parts) node.times.push_back(to_seconds(part));
  node.goodput = times.sums().goodput();
  for (const RestartTimes& restart : times.restarts())
    node.restarts.push_back({to_seconds(restart.detecting), to_seconds(restart.stopping),
                             to_seconds(restart.deciding), to_seconds(restart.starting),
                             to_seconds(restart.first)});
}

NodeRanks node_ranks(const JobStatus& status, const RankHistory& history) {
  const std::int64_t now_ns = history.looked().time_since_epoch().count();
  NodeRanks node;
  node.host = status.host;
  node.node_rank = status.node_rank;
  node.round = status.round;
  node.findings = findings_of(history.last_look(), status.world_size, now_ns);
  for (const WorkerStatus& worker : status.workers) {
    if (node.ranks.size() >= NodeRanks::most_ranks) break;
    RankView view;
    view.rank = worker.rank;
    view.pid = worker.pid;
    view.state = worker.state;
    view.came_last = worker.came_last;
    view.late_s = worker.late_s;
    view.last_output = worker.last_output;
    view.rate = history.rate(worker.rank);
    if (const auto found = history.samples().find(worker.rank); found != history.samples().end())
      view.samples = found->second;
    const auto times = history.times().of_round().find(worker.rank);
    if (times != history.times().of_round().end()) view.times = seconds_of(times->second);
    const auto look = std::ranges::find(history.last_look(), worker.rank, &WorkerLook::rank);
    if (look != history.last_look().end()) {
      view.memory = look->memory;
      view.doing = look->doing;
      if (look->record) add_operation(view, *look->record, now_ns);
    }
    node.ranks.push_back(std::move(view));
  }
  return node;
}

std::string to_json(const std::vector<NodeRanks>& nodes) {
  Json json = Json::object();
  Json& kinds = json["kinds"] = Json::array();
  for (std::size_t i = 0; i < spent_kinds; ++i) {
    kinds.push_back({{"letter", std::string(1, RankHistory::letters.at(i))},
                     {"name", std::string(describe(static_cast<Spent>(i)))}});
  }
  Json& time_kinds_json = json["time_kinds"] = Json::array();
  for (std::size_t i = 0; i < time_kinds; ++i) {
    time_kinds_json.push_back({{"name", std::string(time_kind_names.at(i))},
                               {"words", std::string(describe(static_cast<TimeKind>(i)))}});
  }
  json["nodes"] = JsonWriter::json_of(nodes);
  return to_text(json) + "\n";
}

Result<std::vector<NodeRanks>> node_ranks_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  std::vector<NodeRanks> nodes;
  if (!json.is_object() || !json.contains("nodes") || !JsonReader::read(json["nodes"], nodes))
    return Error{ErrorKind::invalid, "no ranks of a job", "", "it is not what dlaunch answers", ""};
  return nodes;
}

}  // namespace dlaunch::agent
