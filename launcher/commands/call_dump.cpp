#include "launcher/commands/call_dump.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "store/base/text.h"
#include "store/base/time.h"

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;
using agent::RemoteCall;
using agent::RemoteCalls;

constexpr std::size_t most_lines = 24;

// The numbers are another program's.
Duration mean_latency(const page::CallCounts& counts) {
  return Duration(static_cast<std::int64_t>(std::min<std::uint64_t>(
      counts.latency_ns / counts.succeeded, std::numeric_limits<std::int64_t>::max())));
}

std::string counts_text(const page::CallCounts& counts) {
  std::string text = std::to_string(counts.made) + " made, " + std::to_string(counts.failed) + " failed, " +
                     std::to_string(counts.arrived) + " arrived; " + std::to_string(counts.bytes_sent) +
                     " bytes sent, " + std::to_string(counts.bytes_received) + " received";
  if (counts.succeeded > 0) text += "; mean latency " + to_words(mean_latency(counts));
  return text + "; references: " + std::to_string(counts.owned) + " owned, " + std::to_string(counts.used) +
         " used, " + std::to_string(counts.pending) + " pending";
}

}  // namespace

std::string calls_text(const agent::WorkerRecord& record, std::int64_t now_ns) {
  const RemoteCalls& remote = record.remote;
  if (remote.id < 0) return "";
  std::string text = "\nremote calls of rank " + std::to_string(record.rank) + " (worker " + remote.worker +
                     "): " + counts_text(remote.counts) + "\n";
  std::size_t open = 0;
  for (const RemoteCall& call : remote.calls) {
    if (!call.is_open() || ++open > most_lines) continue;
    text += std::string(call.is_served ? "  for worker " : "  to worker ") + call.worker + ": " +
            store::quoted(call.function) + ", " + std::string(agent::describe(call.state)) + ", " +
            to_words(agent::between(call.began_ns, now_ns)) + "\n";
  }
  if (open > most_lines) text += "  and " + std::to_string(open - most_lines) + " more\n";
  return text;
}

Json calls_json(const agent::WorkerRecord& record) {
  const RemoteCalls& remote = record.remote;
  const page::CallCounts& counts = remote.counts;
  Json calls = Json::array();
  for (const RemoteCall& call : remote.calls) {
    calls.push_back({{"number", call.number},
                     {"served", call.is_served},
                     {"peer", call.peer},
                     {"worker", call.worker},
                     {"function", call.function},
                     {"state", agent::describe(call.state)},
                     {"time_began_ns", record.unix_ns(call.began_ns)},
                     {"time_ended_ns", call.is_open() ? Json() : Json(record.unix_ns(call.ended_ns))}});
  }
  return {{"id", remote.id},
          {"worker", remote.worker},
          {"made", counts.made},
          {"succeeded", counts.succeeded},
          {"failed", counts.failed},
          {"latency_ns", counts.latency_ns},
          {"longest_latency_ns", counts.longest_ns},
          {"arrived", counts.arrived},
          {"answered", counts.answered},
          {"answered_with_error", counts.answered_with_error},
          {"bytes_sent", counts.bytes_sent},
          {"bytes_received", counts.bytes_received},
          {"waiting_threads", counts.waiting},
          {"references", {{"owned", counts.owned}, {"used", counts.used}, {"pending", counts.pending}}},
          {"calls", std::move(calls)}};
}

}  // namespace dlaunch::launcher
