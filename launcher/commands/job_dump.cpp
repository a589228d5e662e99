#include "launcher/commands/job_dump.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/model/diagnosis.h"
#include "launcher/commands/call_dump.h"
#include "launcher/commands/flight_record.h"
#include "launcher/commands/job_table.h"
#include "launcher/commands/pickle.h"
#include "store/base/sanitize.h"

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;
using agent::Condition;
using agent::WorkerRecord;

const char* describe(Condition condition) {
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

std::vector<agent::WorkerSeen> seen_workers(const JobDump& dump) {
  std::vector<agent::WorkerSeen> seen;
  for (const WorkerDump& worker : dump.workers) {
    if (worker.seen) {
      seen.push_back(*worker.seen);
    } else if (worker.pid > 0) {
      agent::WorkerSeen without_page;
      without_page.record.rank = worker.status.rank;
      without_page.record.world_size = dump.job.world_size;
      seen.push_back(std::move(without_page));
    }
  }
  return seen;
}

std::vector<std::string> findings(const JobDump& dump) {
  return agent::diagnose(agent::collect_group_progress(seen_workers(dump), dump.job.world_size,
                                                       dump.now.time_since_epoch().count()))
      .sentences;
}

// --- for people ---

std::string headline(const agent::JobStatus& job) {
  const auto since = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(job.state_age_s));
  return "job " + sanitize_for_terminal(job.job) + " (agent " + std::to_string(job.agent) + "), node " +
         std::to_string(job.node_rank) + " of " + std::to_string(job.nnodes) + " on host " +
         sanitize_for_terminal(job.host) + ", round " + std::to_string(job.round) + ", " +
         sanitize_for_terminal(job.state) + (job.state == "ended" ? " after " : " for ") + to_words(since) +
         "\n";
}

std::string last_move(const JobDump& dump, const WorkerRecord& record) {
  return to_words(agent::between(record.moved_ns, dump.now.time_since_epoch().count())) + " ago";
}

// ", at train.py:42 in step".
std::string called_at(const std::string& call_site) { return call_site.empty() ? "" : ", at " + call_site; }

// ", queued on the GPU".
std::string where_on_device(page::Record::OnDevice where) {
  switch (where) {
    case page::Record::not_known:
      return "";
    case page::Record::queued:
      return ", queued on the GPU";
    case page::Record::begun:
      return ", on the GPU";
  }
  return "";
}

std::string describe_collective(const agent::RankProgress& at) {
  return name_of(at.operation) + " #" + std::to_string(at.at()) + (at.inside ? "" : " (failed)") +
         where_on_device(at.on_device) + ", " + to_words(at.waited) + called_at(at.call_site);
}

// The oldest unfinished operation that is not a collective, for example a message; "-": there is none.
std::string describe_other(const WorkerRecord& record, std::uint64_t group, TimePoint now) {
  for (const WorkerRecord::Entry& entry : record.entries) {
    const WorkerRecord::Group* const of = record.group(entry.group);
    if (of == nullptr || of->identity != group || entry.state != page::Record::started ||
        page::is_collective(entry.operation))
      continue;
    return describe_call(entry, *of, "any") + where_on_device(entry.on_device) + ", " +
           to_words(agent::between(entry.created_ns, now.time_since_epoch().count())) +
           called_at(record.call_site_of(entry));
  }
  return "-";
}

// A row for each group that the rank is still in.
void add_rows(const JobDump& dump, const WorkerDump& worker, std::vector<std::vector<std::string>>& rows) {
  const std::string rank = std::to_string(worker.status.rank);
  const std::string pid = worker.pid > 0 ? std::to_string(worker.pid) : "-";
  if (!worker.seen) {
    rows.push_back(
        {rank, pid, sanitize_for_terminal(worker.status.state), "-", "-", "nothing is recorded", "-"});
    return;
  }
  const std::size_t before = rows.size();
  const std::string condition = describe(worker.seen->condition);
  for (const auto& group : agent::collect_group_progress({&*worker.seen, 1}, worker.seen->record.world_size,
                                                         dump.now.time_since_epoch().count())) {
    const agent::RankProgress& at = group.here.front();
    const bool is_outside = group.identity == agent::GroupProgress::outside;
    if (at.left || (is_outside && !at.waits_otherwise())) continue;
    const std::string in = at.waits()   ? describe_collective(at)
                           : is_outside ? name_of(at.operation) + ", " + to_words(at.waited)
                                        : describe_other(worker.seen->record, group.identity, dump.now);
    rows.push_back({rank, pid, condition, last_move(dump, worker.seen->record),
                    is_outside ? "none" : group.name, in, is_outside ? "-" : std::to_string(at.done)});
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
  // The stacks come first, since users look for the program's own frames.
  if (!worker.stacks.empty())
    text += "  " + worker.debugger + ":\n" + indented(sanitize_for_terminal(worker.stacks, true));
  for (const ThreadDump& thread : worker.threads) {
    text += "  thread " + std::to_string(thread.tid) + " (" + sanitize_for_terminal(thread.name) +
            "): " + thread.state;
    if (!thread.waits_in.empty()) text += ", in " + sanitize_for_terminal(thread.waits_in);
    const std::string call = sanitize_for_terminal(thread.system_call);
    if (!call.empty()) text += ", system call " + call.substr(0, call.find(' '));
    text += "\n";
    for (const std::string& frame : thread.kernel_stack) text += "    " + sanitize_for_terminal(frame) + "\n";
  }
  return text;
}

// Each piece of advice once.
std::string advice_in(const JobDump& dump) {
  std::set<std::string> advice;
  for (const WorkerDump& worker : dump.workers) {
    if (!worker.advice.empty()) advice.insert(worker.advice);
  }
  std::string text = advice.empty() ? "" : "\n";
  for (const std::string& one : advice) text += one + "\n";
  return text;
}

// --- for programs ---

Json thread_json(const ThreadDump& thread) {
  return {
      {"tid", thread.tid},        {"name", thread.name},           {"state", std::string(1, thread.state)},
      {"wchan", thread.waits_in}, {"syscall", thread.system_call}, {"kernel_stack", thread.kernel_stack}};
}

// The times of the flight recorder plus unix_minus_steady_ns here, minus that of the worker, are of the
// shared clock.
Json clock_json(const agent::SharedClock& clock) {
  if (clock.id == 0) return nullptr;
  return {
      {"id", clock.id}, {"unix_minus_steady_ns", clock.unix_minus_steady_ns}, {"error_ns", clock.error_ns}};
}

Json worker_json(const WorkerDump& worker) {
  Json threads = Json::array();
  for (const ThreadDump& thread : worker.threads) threads.push_back(thread_json(thread));
  Json json = {{"rank", worker.status.rank},
               {"local_rank", worker.status.local_rank},
               {"pid", worker.pid},
               {"state", worker.seen ? describe(worker.seen->condition) : worker.status.state}};
  if (worker.seen) {
    json["unix_minus_steady_ns"] = worker.seen->record.unix_minus_steady_ns;
    json["flight"] = flight_of(worker.seen->record);
    if (worker.seen->record.remote.id >= 0) json["rpc"] = calls_json(worker.seen->record);
  }
  json["threads"] = std::move(threads);
  if (!worker.debugger.empty()) json["debugger"] = worker.debugger;
  if (!worker.stacks.empty()) json["stacks"] = worker.stacks;
  if (!worker.advice.empty()) json["advice"] = worker.advice;
  return json;
}

}  // namespace

std::string to_text(const JobDump& dump) {
  std::string text = headline(dump.job);
  const std::vector<std::string> sentences = findings(dump);
  for (const std::string& sentence : sentences) text += sentence + "\n";
  if (!dump.whole_job.empty()) {
    text += "on all nodes:\n";
    for (const std::string& sentence : dump.whole_job) text += "  " + sanitize_for_terminal(sentence) + "\n";
  } else if (!sentences.empty() && dump.job.nnodes > 1) {
    text += "(for the ranks of other nodes, run dlaunch dump on their hosts)\n";
  }
  std::vector<std::vector<std::string>> rows = {
      {"RANK", "PID", "PROCESS", "LAST MOVE", "GROUP", "IN", "DONE"}};
  for (const WorkerDump& worker : dump.workers) add_rows(dump, worker, rows);
  text += "\n" + columns(rows);
  for (const WorkerDump& worker : dump.workers) {
    if (worker.seen) text += calls_text(worker.seen->record, dump.now.time_since_epoch().count());
  }
  for (const WorkerDump& worker : dump.workers) text += threads_of(worker);
  return text + advice_in(dump);
}

std::string to_json(const JobDump& dump) {
  Json workers = Json::array();
  for (const WorkerDump& worker : dump.workers) workers.push_back(worker_json(worker));
  const Json json = {{"job", dump.job.job},
                     {"agent", dump.job.agent},
                     {"host", dump.job.host},
                     {"node_rank", dump.job.node_rank},
                     {"nnodes", dump.job.nnodes},
                     {"round", dump.job.round},
                     {"state", dump.job.state},
                     {"world_size", dump.job.world_size},
                     {"clock", clock_json(dump.job.clock)},
                     {"findings", findings(dump)},
                     {"job_findings", dump.whole_job},
                     {"workers", std::move(workers)}};
  // Workers may write any bytes, but JSON must be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<FlightFile> flight_files(const JobDump& dump) {
  std::vector<FlightFile> files;
  for (const WorkerDump& worker : dump.workers) {
    if (!worker.seen) continue;
    const WorkerRecord& record = worker.seen->record;
    files.push_back({record.rank, "dlaunch_rank_" + std::to_string(record.rank),
                     pickled(flight_for_torchfrtrace(record))});
  }
  return files;
}

}  // namespace dlaunch::launcher
