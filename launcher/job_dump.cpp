#include "launcher/job_dump.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "agent/diagnosis.h"
#include "agent/printable.h"
#include "launcher/job_table.h"

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;
using agent::Condition;
using agent::printable;
using agent::WorkerRecord;

// Of the format whose fields these are.
constexpr const char* flight_recorder_version = "2.10";

// By the runtime's DType, as PyTorch calls them.
constexpr std::array dtype_names{"Char", "Short",    "Int",   "Long",   "Byte",         "Bool",
                                 "Half", "BFloat16", "Float", "Double", "ComplexFloat", "ComplexDouble"};

const char* in_words(Condition condition) {
  switch (condition) {
    case Condition::runs:
      return "running";
    case Condition::stopped:
      return "stopped";
    case Condition::ended:
      return "ended";
  }
  return "";
}

// "all_reduce", "send 1->2", "recv 3<-0": by ranks in the group.
std::string call_of(const WorkerRecord::Entry& entry, const WorkerRecord::Group& group) {
  std::string name = name_of(entry.operation);
  if (!page::is_point_to_point(entry.operation)) return name;
  const std::string peer = entry.peer < 0 ? "any" : std::to_string(entry.peer);
  return name + " " + std::to_string(group.rank) + (entry.operation == page::Operation::send ? "->" : "<-") +
         peer;
}

std::vector<agent::WorkerSeen> seen_workers(const JobDump& dump) {
  std::vector<agent::WorkerSeen> seen;
  for (const WorkerDump& worker : dump.workers) {
    if (worker.seen) seen.push_back(*worker.seen);
  }
  return seen;
}

std::vector<std::string> findings(const JobDump& dump) {
  return agent::diagnose(agent::standings_of(seen_workers(dump), dump.job.world_size,
                                             dump.now.time_since_epoch().count()))
      .sentences;
}

// --- for people ---

std::string headline(const agent::JobStatus& job) {
  const auto since = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(job.state_age_s));
  return "job " + printable(job.job) + " (agent " + std::to_string(job.agent) + "), node " +
         std::to_string(job.node_rank) + " of " + std::to_string(job.nnodes) + " on host " +
         printable(job.host) + ", round " + std::to_string(job.round) + ", " + printable(job.state) +
         " for " + to_words(since) + "\n";
}

std::string last_move(const JobDump& dump, const WorkerRecord& record) {
  return to_words(agent::between(record.moved_ns, dump.now.time_since_epoch().count())) + " ago";
}

std::string collective_in_words(const agent::RankStanding& at) {
  return name_of(at.operation) + " #" + std::to_string(at.at()) + (at.inside ? "" : " (failed)") + ", " +
         to_words(at.waited);
}

// Of what is no collective, messages above all, the one that has been under way for longest; "-": none is.
std::string other_in_words(const WorkerRecord& record, std::uint64_t group, TimePoint now) {
  for (const WorkerRecord::Entry& entry : record.entries) {
    const WorkerRecord::Group* const of = record.group(entry.group);
    if (of == nullptr || of->identity != group || entry.state != page::Record::started ||
        page::is_collective(entry.operation))
      continue;
    return call_of(entry, *of) + ", " +
           to_words(agent::between(entry.created_ns, now.time_since_epoch().count()));
  }
  return "-";
}

// A row for each group that the rank is still in.
void add_rows(const JobDump& dump, const WorkerDump& worker, std::vector<std::vector<std::string>>& rows) {
  const std::string rank = std::to_string(worker.status.rank);
  const std::string pid = worker.pid > 0 ? std::to_string(worker.pid) : "-";
  if (!worker.seen) {
    rows.push_back({rank, pid, printable(worker.status.state), "-", "-", "nothing is recorded", "-"});
    return;
  }
  const std::size_t before = rows.size();
  const std::string condition = in_words(worker.seen->condition);
  for (const auto& group : agent::standings_of({&*worker.seen, 1}, worker.seen->record.world_size,
                                               dump.now.time_since_epoch().count())) {
    const agent::RankStanding& at = group.here.front();
    if (at.left) continue;
    const std::string in =
        at.waits() ? collective_in_words(at) : other_in_words(worker.seen->record, group.identity, dump.now);
    rows.push_back({rank, pid, condition, last_move(dump, worker.seen->record), group.name, in,
                    std::to_string(at.done)});
  }
  if (rows.size() == before)
    rows.push_back({rank, pid, condition, last_move(dump, worker.seen->record), "none", "-", "-"});
}

std::string indented(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += "    " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

std::string threads_of(const WorkerDump& worker) {
  if (worker.threads.empty() && worker.stacks.empty()) return "";
  std::string text =
      "\nrank " + std::to_string(worker.status.rank) + ", process " + std::to_string(worker.pid) + "\n";
  for (const ThreadDump& thread : worker.threads) {
    text += "  thread " + std::to_string(thread.tid) + " (" + printable(thread.name) + "): " + thread.state;
    if (!thread.waits_in.empty()) text += ", in " + printable(thread.waits_in);
    const std::string call = printable(thread.system_call);
    if (!call.empty()) text += ", system call " + call.substr(0, call.find(' '));
    text += "\n";
    for (const std::string& frame : thread.kernel_stack) text += "    " + printable(frame) + "\n";
  }
  if (!worker.stacks.empty())
    text += "  " + worker.debugger + ":\n" + indented(printable(worker.stacks, true));
  return text;
}

// --- for programs ---

std::string list_of(const std::vector<page::Run>& runs) {
  constexpr std::size_t most = 65'536;
  std::string text = "[";
  std::size_t count = 0;
  for (const page::Run& run : runs) {
    for (std::uint32_t i = 0; i < run.count && count < most; ++i, ++count)
      text += (count > 0 ? ", " : "") + std::to_string(run.first + std::int64_t{run.stride} * i);
  }
  return text + "]";
}

Json configuration(const WorkerRecord& record) {
  Json groups = Json::object();
  for (const WorkerRecord::Group& group : record.groups) {
    groups[std::to_string(group.id)] = {
        {"name", group.name}, {"desc", group.backend}, {"ranks", list_of(group.ranks)}};
  }
  return groups;
}

// The field counts from -1: nothing yet.
std::int64_t latest(std::uint64_t sequence) {
  return sequence == 0 ? -1 : static_cast<std::int64_t>(sequence);
}

Json status(const WorkerRecord& record) {
  Json groups = Json::object();
  for (const WorkerRecord::Group& group : record.groups) {
    const std::uint64_t started = std::min(group.entered, group.ended + 1);
    groups[std::to_string(group.id)] = {{"last_enqueued_collective", latest(group.entered)},
                                        {"last_started_collective", latest(started)},
                                        {"last_completed_collective", latest(group.done)}};
  }
  return groups;
}

// "gloo:all_reduce", "gloo:send 1->2".
std::string profiling_name(const WorkerRecord::Entry& entry, const WorkerRecord::Group* group) {
  return group == nullptr ? name_of(entry.operation) : group->backend + ":" + call_of(entry, *group);
}

// A group's collectives run one after the other.
const char* state_of(const WorkerRecord::Entry& entry, const WorkerRecord::Group* group) {
  if (entry.state == page::Record::completed) return "completed";
  const bool waits_its_turn = page::is_collective(entry.operation) && entry.state == page::Record::started &&
                              group != nullptr && entry.sequence > group->ended + 1;
  return waits_its_turn ? "scheduled" : "started";
}

Json in_list(std::uint64_t elements) {
  return elements == 0 ? Json::array() : Json::array({Json::array({elements})});
}

Json entry_json(const WorkerRecord& record, const WorkerRecord::Entry& entry) {
  const WorkerRecord::Group* group = record.group(entry.group);
  const bool p2p = page::is_point_to_point(entry.operation);
  const auto on_the_wall = [&](std::int64_t ns) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(ns) +
                                     static_cast<std::uint64_t>(record.unix_minus_steady_ns));
  };
  const Json dtype =
      entry.dtype < dtype_names.size() ? Json::array({dtype_names[entry.dtype]}) : Json::array();
  const Json nothing = Json::array();
  const bool waits_its_turn = std::string_view(state_of(entry, group)) == "scheduled";
  Json json = {
      {"record_id", entry.number},
      {"pg_id", entry.group},
      {"process_group", {group != nullptr ? group->name : "", group != nullptr ? group->backend : ""}},
      {"collective_seq_id", page::is_collective(entry.operation) ? entry.sequence : 0},
      {"p2p_seq_id", p2p ? entry.sequence : 0},
      {"op_id", entry.sequence},
      {"profiling_name", profiling_name(entry, group)},
      {"time_created_ns", on_the_wall(entry.created_ns)},
      {"time_discovered_started_ns", waits_its_turn ? Json() : Json(on_the_wall(entry.created_ns))},
      {"time_discovered_completed_ns", entry.ended_ns > 0 ? Json(on_the_wall(entry.ended_ns)) : Json()},
      {"input_sizes", in_list(entry.input)},
      {"input_dtypes", entry.input > 0 ? dtype : nothing},
      {"output_sizes", in_list(entry.output)},
      {"output_dtypes", entry.output > 0 ? dtype : nothing},
      {"state", state_of(entry, group)},
      {"retired", entry.state != page::Record::started},
      {"timeout_ms", entry.timeout_ms},
      {"is_p2p", p2p},
      {"frames", nothing}};
  if (entry.ended_ns > 0)
    json["duration_ms"] = to_seconds(agent::between(entry.created_ns, entry.ended_ns)) * 1000;
  return json;
}

Json flight_json(const WorkerRecord& record) {
  Json entries = Json::array();
  for (const WorkerRecord::Entry& entry : record.entries) entries.push_back(entry_json(record, entry));
  return {{"version", flight_recorder_version}, {"rank", record.rank},
          {"world_size", record.world_size},    {"pg_config", configuration(record)},
          {"pg_status", status(record)},        {"entries", std::move(entries)}};
}

Json thread_json(const ThreadDump& thread) {
  return {
      {"tid", thread.tid},        {"name", thread.name},           {"state", std::string(1, thread.state)},
      {"wchan", thread.waits_in}, {"syscall", thread.system_call}, {"kernel_stack", thread.kernel_stack}};
}

Json worker_json(const WorkerDump& worker) {
  Json threads = Json::array();
  for (const ThreadDump& thread : worker.threads) threads.push_back(thread_json(thread));
  Json json = {{"rank", worker.status.rank},
               {"local_rank", worker.status.local_rank},
               {"pid", worker.pid},
               {"state", worker.seen ? in_words(worker.seen->condition) : worker.status.state}};
  if (worker.seen) json["flight"] = flight_json(worker.seen->record);
  json["threads"] = std::move(threads);
  if (!worker.debugger.empty()) json["debugger"] = worker.debugger;
  if (!worker.stacks.empty()) json["stacks"] = worker.stacks;
  return json;
}

}  // namespace

std::string to_text(const JobDump& dump) {
  std::string text = headline(dump.job);
  const std::vector<std::string> sentences = findings(dump);
  for (const std::string& sentence : sentences) text += sentence + "\n";
  if (!dump.whole_job.empty()) {
    text += "with the other nodes:\n";
    for (const std::string& sentence : dump.whole_job) text += "  " + printable(sentence) + "\n";
  } else if (!sentences.empty() && dump.job.nnodes > 1) {
    text += "(of the ranks of other nodes dlaunch dump tells there)\n";
  }
  std::vector<std::vector<std::string>> rows = {
      {"RANK", "PID", "PROCESS", "LAST MOVE", "GROUP", "IN", "DONE"}};
  for (const WorkerDump& worker : dump.workers) add_rows(dump, worker, rows);
  text += "\n" + columns(rows);
  for (const WorkerDump& worker : dump.workers) text += threads_of(worker);
  return text;
}

std::string to_json(const JobDump& dump) {
  Json workers = Json::array();
  for (const WorkerDump& worker : dump.workers) workers.push_back(worker_json(worker));
  const Json json = {{"job", dump.job.job},          {"agent", dump.job.agent},
                     {"host", dump.job.host},        {"node_rank", dump.job.node_rank},
                     {"nnodes", dump.job.nnodes},    {"round", dump.job.round},
                     {"state", dump.job.state},      {"world_size", dump.job.world_size},
                     {"findings", findings(dump)},   {"job_findings", dump.whole_job},
                     {"workers", std::move(workers)}};
  // What workers wrote may be any bytes; JSON may not.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dlaunch::launcher
