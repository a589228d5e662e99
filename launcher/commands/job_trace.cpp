#include "launcher/commands/job_trace.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "store/base/sanitize.h"

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;

// --- Reading

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t latest_ns = largest / 2;  // the year 2116; differences do not overflow
constexpr std::int64_t most_shift = largest / 4;

struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A number that is null or not there is 0.
std::int64_t number_in(const Json& object, const char* key, std::int64_t most, std::int64_t least = 0) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return 0;
  if (!found->is_number_integer()) throw Malformed(std::string(key) + " is no integer");
  const auto value = found->get<std::int64_t>();
  if (value < least || value > most) throw Malformed(std::string(key) + " is out of range");
  return value;
}

// [[8]] has 8 elements, [] none.
std::int64_t elements_in(const Json& sizes) {
  if (!sizes.is_array() || sizes.empty() || !sizes[0].is_array() || sizes[0].empty()) return 0;
  return sizes[0][0].is_number_unsigned() ? sizes[0][0].get<std::int64_t>() : 0;
}

std::string members_of(const Json& groups, const std::string& name) {
  const auto found = groups.find(name);
  return found == groups.end() ? "" : found->at("ranks").get<std::string>();
}

TracedOperation operation_in(const Json& entry, const Json& groups) {
  TracedOperation operation;
  operation.began_ns = number_in(entry, "time_created_ns", latest_ns);
  operation.ended_ns = number_in(entry, "time_discovered_completed_ns", latest_ns);
  if (operation.ended_ns != 0) operation.ended_ns = std::max(operation.ended_ns, operation.began_ns);
  operation.group = entry.at("process_group").at(0).get<std::string>();
  operation.backend = entry.at("process_group").at(1).get<std::string>();
  operation.members = members_of(groups, operation.group);
  const auto name = entry.at("profiling_name").get<std::string>();  // "gloo:all_reduce"
  operation.name = name.substr(name.find(':') + 1);
  operation.sequence = number_in(entry, "op_id", largest);
  operation.is_collective = number_in(entry, "collective_seq_id", largest) > 0;
  operation.state = entry.at("state").get<std::string>();
  if (operation.state != "completed" && operation.ended_ns != 0) operation.state = "failed";
  const bool has_input = !entry.at("input_dtypes").empty();
  const Json& dtypes = entry.at(has_input ? "input_dtypes" : "output_dtypes");
  operation.elements = elements_in(entry.at(has_input ? "input_sizes" : "output_sizes"));
  operation.dtype = dtypes.empty() ? "" : dtypes.at(0).get<std::string>();
  return operation;
}

TracedOperation call_in(const Json& call, int id) {
  constexpr std::int64_t most_id = std::numeric_limits<int>::max();
  TracedOperation operation;
  operation.is_served = call.at("served").get<bool>();
  const auto peer = static_cast<int>(number_in(call, "peer", most_id));
  operation.caller = operation.is_served ? peer : id;
  operation.callee = operation.is_served ? id : peer;
  operation.group = operation.is_served ? "calls of other workers" : "calls to other workers";
  operation.name = call.at("function").get<std::string>() + (operation.is_served ? " for " : " in ") +
                   call.at("worker").get<std::string>();
  operation.sequence = number_in(call, "number", largest);
  operation.state = call.at("state").get<std::string>();
  operation.began_ns = number_in(call, "time_began_ns", latest_ns);
  operation.ended_ns = number_in(call, "time_ended_ns", latest_ns);
  if (operation.ended_ns != 0) operation.ended_ns = std::max(operation.ended_ns, operation.began_ns);
  return operation;
}

// Of one worker.
std::vector<TracedOperation> operations_of(const Json& worker) {
  const Json& flight = worker.at("flight");
  std::vector<TracedOperation> operations;
  for (const Json& entry : flight.at("entries"))
    operations.push_back(operation_in(entry, flight.at("pg_config")));
  if (const auto remote = worker.find("rpc"); remote != worker.end()) {
    const auto id = static_cast<int>(number_in(*remote, "id", std::numeric_limits<int>::max()));
    for (const Json& call : remote->at("calls")) operations.push_back(call_in(call, id));
  }
  return operations;
}

agent::SharedClock clock_in(const Json& dump) {
  const auto clock = dump.find("clock");
  if (clock == dump.end() || clock->is_null()) return {};
  if (!clock->is_object()) throw Malformed("clock is no object");
  return {number_in(*clock, "id", largest, -largest),
          number_in(*clock, "unix_minus_steady_ns", most_shift, -most_shift),
          number_in(*clock, "error_ns", latest_ns)};
}

TracedNode node_in(const Json& dump) {
  TracedNode node{dump.at("job").get<std::string>(), dump.at("host").get<std::string>(), clock_in(dump), {}};
  const auto round = static_cast<int>(number_in(dump, "round", std::numeric_limits<int>::max()));
  for (const Json& worker : dump.at("workers")) {
    const auto flight = worker.find("flight");
    if (flight == worker.end()) continue;
    const auto rank = static_cast<int>(number_in(*flight, "rank", std::numeric_limits<int>::max()));
    const std::int64_t own = number_in(worker, "unix_minus_steady_ns", most_shift, -most_shift);
    for (TracedOperation& operation : operations_of(worker)) {
      operation.rank = rank;
      operation.round = round;
      operation.host = node.host;
      operation.to_shared_ns = node.clock.unix_minus_steady_ns - own;
      node.operations.push_back(std::move(operation));
    }
  }
  return node;
}

// --- Writing

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

// Operations of one track follow each other; overlapping ones are on several. Of one rank.
class Tracks {
 public:
  // In the order in which the operations begin. Returns the track's number.
  int place(const TracedOperation& operation) {
    std::vector<Lane>& lanes = lanes_[operation.group];
    const std::int64_t end = operation.ended_ns == 0 ? largest : operation.ended_ns;
    const auto free =
        std::ranges::find_if(lanes, [&](const Lane& lane) { return lane.busy_until <= operation.began_ns; });
    if (free != lanes.end()) {
      free->busy_until = end;
      return free->track;
    }
    lanes.push_back({next_, end});
    std::string name =
        operation.caller >= 0 ? operation.group : "group " + operation.group + " (" + operation.backend + ")";
    if (lanes.size() > 1) name += ", " + std::to_string(lanes.size());
    names_.emplace_back(next_, std::move(name));
    return next_++;
  }

  [[nodiscard]] std::span<const std::pair<int, std::string>> names() const { return names_; }

 private:
  struct Lane {
    int track;
    std::int64_t busy_until;
  };
  std::map<std::string, std::vector<Lane>> lanes_;  // by group
  std::vector<std::pair<int, std::string>> names_;
  int next_ = 1;
};

class Trace {
 public:
  Trace(std::vector<TracedOperation> operations, bool on_shared_clock) : operations_(std::move(operations)) {
    const auto identity = [](const TracedOperation& o) {
      return std::tie(o.began_ns, o.rank, o.round, o.group, o.name, o.sequence);
    };
    // A later dump shows its end.
    std::ranges::sort(operations_, std::ranges::greater(), &TracedOperation::ended_ns);
    std::ranges::stable_sort(operations_, {}, identity);
    const auto is_same = [&](const auto& a, const auto& b) { return identity(a) == identity(b); };
    operations_.erase(std::unique(operations_.begin(), operations_.end(), is_same), operations_.end());
    if (on_shared_clock) move_to_shared_clock();
    if (!operations_.empty()) origin_ns_ = operations_.front().began_ns;
  }

  [[nodiscard]] std::int64_t origin_ns() const { return origin_ns_; }

  std::vector<Json> events() {
    for (const TracedOperation& operation : operations_) add(operation);
    add_names();
    add_arrows();
    add_call_arrows();
    return std::move(events_);
  }

 private:
  // The operations of one collective: the latest of each rank.
  using Call = std::map<int, const TracedOperation*>;

  void move_to_shared_clock() {
    const auto moved = [](std::int64_t ns, std::int64_t by) {
      return std::clamp(ns + by, std::int64_t{0}, latest_ns);
    };
    for (TracedOperation& operation : operations_) {
      operation.began_ns = moved(operation.began_ns, operation.to_shared_ns);
      if (operation.ended_ns != 0)
        operation.ended_ns = std::max<std::int64_t>(1, moved(operation.ended_ns, operation.to_shared_ns));
    }
    std::ranges::stable_sort(operations_, {}, &TracedOperation::began_ns);
  }

  // Microseconds since the first operation.
  [[nodiscard]] double when(std::int64_t ns) const { return microseconds(ns - origin_ns_); }

  void add(const TracedOperation& operation) {
    const int track = tracks_[operation.rank].place(operation);
    track_of_[&operation] = track;
    hosts_[operation.rank] = operation.host;
    Json details = {{"sequence", operation.sequence}, {"state", operation.state}};
    if (!operation.dtype.empty()) {
      details["elements"] = operation.elements;
      details["dtype"] = operation.dtype;
    }
    Json event = {{"name", operation.name},
                  {"cat", operation.is_collective ? "collective"
                          : operation.caller >= 0 ? "rpc"
                                                  : "other"},
                  {"ph", operation.ended_ns == 0 ? "B" : "X"},
                  {"pid", operation.rank},
                  {"tid", track},
                  {"ts", when(operation.began_ns)},
                  {"args", std::move(details)}};
    if (operation.ended_ns != 0) event["dur"] = microseconds(operation.ended_ns - operation.began_ns);
    events_.push_back(std::move(event));
    if (operation.caller >= 0) {
      auto& ends = remote_calls_[{operation.round, operation.caller, operation.callee, operation.sequence}];
      (operation.is_served ? ends.second : ends.first) = &operation;
    }
    if (operation.is_collective)
      calls_[{operation.round, operation.group, operation.members, operation.sequence}][operation.rank] =
          &operation;
  }

  void add_names() {
    for (const auto& [rank, tracks] : tracks_) {
      events_.push_back(Json{{"name", "process_name"},
                             {"ph", "M"},
                             {"pid", rank},
                             {"args", {{"name", "rank " + std::to_string(rank) + " on " + hosts_[rank]}}}});
      events_.push_back(
          Json{{"name", "process_sort_index"}, {"ph", "M"}, {"pid", rank}, {"args", {{"sort_index", rank}}}});
      for (const auto& [track, name] : tracks.names()) {
        events_.push_back(Json{
            {"name", "thread_name"}, {"ph", "M"}, {"pid", rank}, {"tid", track}, {"args", {{"name", name}}}});
      }
    }
  }

  // From the last to come to those that ended after that. A rank that ended before did not wait for it.
  void add_arrows() {
    for (const auto& [key, call] : calls_) {
      if (call.size() < 2 || call.size() != count_of(std::get<2>(key))) continue;
      const TracedOperation* const last =
          std::ranges::max_element(call, {}, [](const auto& one) { return one.second->began_ns; })->second;
      for (const auto& [rank, operation] : call) {
        if (operation == last || operation->ended_ns <= last->began_ns) continue;
        ++arrow_;
        add_end("last to come", "s", *last, last->began_ns);
        add_end("last to come", "f", *operation, operation->ended_ns);
      }
    }
  }

  // From the caller to the callee.
  void add_call_arrows() {
    for (const auto& [key, ends] : remote_calls_) {
      if (ends.first == nullptr || ends.second == nullptr) continue;
      ++arrow_;
      add_end("remote call", "s", *ends.first, ends.first->began_ns);
      add_end("remote call", "f", *ends.second, ends.second->began_ns);
    }
  }

  void add_end(const char* name, const char* phase, const TracedOperation& operation, std::int64_t ns) {
    events_.push_back(Json{{"name", name},
                           {"cat", "order"},
                           {"ph", phase},
                           {"bp", "e"},
                           {"id", arrow_},
                           {"pid", operation.rank},
                           {"tid", track_of_[&operation]},
                           {"ts", when(ns)}});
  }

  // "[0, 1, 2]": 3.
  static std::size_t count_of(const std::string& members) {
    return members.size() <= 2 ? 0 : static_cast<std::size_t>(std::ranges::count(members, ',')) + 1;
  }

  std::vector<TracedOperation> operations_;  // by the time at which they began
  std::int64_t origin_ns_ = 0;
  std::vector<Json> events_;
  std::map<int, Tracks> tracks_;  // by rank
  std::map<int, std::string> hosts_;
  std::map<const TracedOperation*, int> track_of_;
  std::map<std::tuple<int, std::string, std::string, std::int64_t>, Call>
      calls_;  // by round, group, members, number
  // At the caller and at the callee, by round, caller, callee, number.
  std::map<std::tuple<int, int, int, std::int64_t>, std::pair<const TracedOperation*, const TracedOperation*>>
      remote_calls_;
  int arrow_ = 0;
};

}  // namespace

Result<TracedNode> operations_in(std::string_view dump, const std::string& source) {
  try {
    return node_in(Json::parse(dump));
  } catch (const std::exception& e) {
    return Error{ErrorKind::invalid, source + " is no output of dlaunch dump --json", "",
                 sanitize_for_terminal(e.what()), ""};
  }
}

bool have_one_clock(const std::vector<TracedNode>& nodes) {
  return std::ranges::all_of(nodes, [&](const TracedNode& node) {
    return node.clock.id == nodes.front().clock.id && (node.clock.id != 0 || node.host == nodes.front().host);
  });
}

std::int64_t clock_error(const std::vector<TracedNode>& nodes) {
  std::int64_t error = 0;
  for (const TracedNode& node : nodes) error = std::max(error, node.clock.error_ns);
  return error;
}

std::string to_trace(std::vector<TracedNode> nodes) {
  Json about;
  about["clock"] = have_one_clock(nodes) ? "one for all ranks" : "each host's own";
  if (have_one_clock(nodes)) about["clock_error_ns"] = clock_error(nodes);
  const bool is_shared = have_one_clock(nodes) && !nodes.empty() && nodes.front().clock.id != 0;
  std::vector<TracedOperation> operations;
  for (TracedNode& node : nodes) std::ranges::move(node.operations, std::back_inserter(operations));
  Trace trace(std::move(operations), is_shared);
  about["begins_unix_ns"] = trace.origin_ns();
  std::string text = R"({"displayTimeUnit":"ns","otherData":)" + about.dump() + R"(,"traceEvents":[)";
  // One event a line. Names may be any bytes, but JSON must be UTF-8.
  const char* separator = "\n";
  for (const Json& event : trace.events()) {
    text += separator + event.dump(-1, ' ', false, Json::error_handler_t::replace);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace dlaunch::launcher
