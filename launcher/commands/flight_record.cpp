#include "launcher/commands/flight_record.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;
using agent::WorkerRecord;

// The version of the format that has these fields.
constexpr const char* flight_recorder_version = "2.10";

// PyTorch's names, indexed by the runtime's DType.
constexpr std::array dtype_names{"Char",         "Short",         "Int",           "Long",       "Byte",
                                 "Bool",         "Half",          "BFloat16",      "Float",      "Double",
                                 "ComplexFloat", "ComplexDouble", "Float8_e4m3fn", "Float8_e5m2"};

// PyTorch's text for the peer of a message that any rank may send.
constexpr std::string_view unknown_peer = "?";

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

// Keys are the names by which entries refer to their group: process_group[0].
Json configuration(const WorkerRecord& record) {
  Json groups = Json::object();
  for (const WorkerRecord::Group& group : record.groups) {
    // A group that the rank has left may have had the same name.
    if (group.left && groups.contains(group.name)) continue;
    groups[group.name] = {{"name", group.name}, {"desc", group.backend}, {"ranks", list_of(group.ranks)}};
  }
  return groups;
}

// The field is -1 before the first operation.
std::int64_t latest(std::uint64_t sequence) {
  return sequence == 0 ? -1 : static_cast<std::int64_t>(sequence);
}

Json status(const WorkerRecord& record) {
  Json groups = Json::object();
  for (const WorkerRecord::Group& group : record.groups) {
    const WorkerRecord::Entry* const next = record.collective(group.id, group.ended + 1);
    const bool is_queued = next != nullptr && next->on_device == page::Record::queued;
    const std::uint64_t started = is_queued ? group.ended : std::min(group.entered, group.ended + 1);
    groups[std::to_string(group.id)] = {{"last_enqueued_collective", latest(group.entered)},
                                        {"last_started_collective", latest(started)},
                                        {"last_completed_collective", latest(group.done)}};
  }
  return groups;
}

// "gloo:all_reduce", "gloo:send 1->2".
std::string profiling_name(const WorkerRecord::Entry& entry, const WorkerRecord::Group* group) {
  return group == nullptr ? name_of(entry.operation)
                          : group->backend + ":" + describe_call(entry, *group, unknown_peer);
}

constexpr std::string_view scheduled = "scheduled";

// A group's collectives run one after the other, and a device's operations when it comes to them.
std::string_view state_of(const WorkerRecord::Entry& entry, const WorkerRecord::Group* group) {
  if (entry.state == page::Record::completed) return "completed";
  if (entry.on_device != page::Record::not_known)
    return entry.on_device == page::Record::queued ? scheduled : "started";
  const bool waits_its_turn = page::is_collective(entry.operation) && entry.state == page::Record::started &&
                              group != nullptr && entry.sequence > group->ended + 1;
  return waits_its_turn ? scheduled : "started";
}

Json in_list(std::uint64_t elements) {
  return elements == 0 ? Json::array() : Json::array({Json::array({elements})});
}

// The one that is known.
Json frames_of(const WorkerRecord& record, const WorkerRecord::Entry& entry) {
  Json frames = Json::array();
  if (const auto site = record.call_sites.find(entry.call_site); site != record.call_sites.end()) {
    frames.push_back(
        {{"name", site->second.function}, {"filename", site->second.file}, {"line", site->second.line}});
  }
  return frames;
}

Json entry_json(const WorkerRecord& record, const WorkerRecord::Entry& entry) {
  const WorkerRecord::Group* group = record.group(entry.group);
  const bool p2p = page::is_point_to_point(entry.operation);
  const Json dtype =
      entry.dtype < dtype_names.size() ? Json::array({dtype_names[entry.dtype]}) : Json::array();
  const Json nothing = Json::array();
  const std::string_view state = state_of(entry, group);
  Json json = {
      {"record_id", entry.number},
      {"pg_id", entry.group},
      {"process_group", {group != nullptr ? group->name : "", group != nullptr ? group->backend : ""}},
      {"collective_seq_id", page::is_collective(entry.operation) ? entry.sequence : 0},
      {"p2p_seq_id", p2p ? entry.sequence : 0},
      {"op_id", entry.sequence},
      {"profiling_name", profiling_name(entry, group)},
      {"time_created_ns", record.unix_ns(entry.created_ns)},
      {"time_discovered_started_ns", state == scheduled ? Json() : Json(record.unix_ns(entry.created_ns))},
      {"time_discovered_completed_ns", entry.ended_ns > 0 ? Json(record.unix_ns(entry.ended_ns)) : Json()},
      {"input_sizes", in_list(entry.input)},
      {"input_dtypes", entry.input > 0 ? dtype : nothing},
      {"output_sizes", in_list(entry.output)},
      {"output_dtypes", entry.output > 0 ? dtype : nothing},
      {"state", state},
      {"retired", entry.state != page::Record::started},
      {"timeout_ms", entry.timeout_ms},
      {"is_p2p", p2p},
      {"frames", frames_of(record, entry)}};
  if (entry.ended_ns > 0)
    json["duration_ms"] = to_seconds(agent::between(entry.created_ns, entry.ended_ns)) * 1000;
  return json;
}

// torchfrtrace's name of the operation; empty: it does not know the operation.
std::string_view torch_name(page::Operation operation) {
  switch (operation) {
    case page::Operation::all_gather_into_tensor:
      return "_all_gather_base";
    case page::Operation::reduce_scatter_tensor:
      return "_reduce_scatter_base";
    case page::Operation::all_reduce_coalesced:
      return "allreduce_coalesced";
    case page::Operation::all_reduce:
    case page::Operation::broadcast:
    case page::Operation::reduce:
    case page::Operation::all_gather:
    case page::Operation::gather:
    case page::Operation::scatter:
    case page::Operation::reduce_scatter:
    case page::Operation::all_to_all:
    case page::Operation::all_to_all_single:
    case page::Operation::barrier:
      return page::operation_names[static_cast<std::size_t>(operation)];
    case page::Operation::none:
    case page::Operation::send:
    case page::Operation::recv:
    case page::Operation::monitored_barrier:
    case page::Operation::new_group:
    case page::Operation::new_subgroups:
    case page::Operation::new_subgroups_by_enumeration:
    case page::Operation::split_group:
    case page::Operation::init_device_mesh:
    case page::Operation::device_mesh:
    case page::Operation::flatten:
    case page::Operation::init_process_group:
    case page::Operation::store_wait:
    case page::Operation::remote_call:
      return "";
  }
  return "";
}

// torchfrtrace reads the first size of each list, even if there is none, and expects reduce to be in place.
void adapt_sizes(page::Operation operation, Json& entry) {
  if (operation == page::Operation::reduce) {
    entry["output_sizes"] = entry["input_sizes"];
    entry["output_dtypes"] = entry["input_dtypes"];
  }
  for (const char* const sizes : {"input_sizes", "output_sizes"}) {
    if (entry[sizes].empty()) entry[sizes] = Json::array({Json::array()});
  }
}

// All fields except the entries.
Json head_of(const WorkerRecord& record) {
  return {{"version", flight_recorder_version},
          {"rank", record.rank},
          {"world_size", record.world_size},
          {"pg_config", configuration(record)},
          {"pg_status", status(record)}};
}

}  // namespace

std::string describe_call(const WorkerRecord::Entry& entry, const WorkerRecord::Group& group,
                          std::string_view any_peer) {
  std::string name = name_of(entry.operation);
  if (!page::is_point_to_point(entry.operation)) return name;
  const std::string peer = entry.peer < 0 ? std::string(any_peer) : std::to_string(entry.peer);
  return name + " " + std::to_string(group.rank) + (entry.operation == page::Operation::send ? "->" : "<-") +
         peer;
}

Json flight_of(const WorkerRecord& record) {
  Json flight = head_of(record);
  Json& entries = flight["entries"] = Json::array();
  for (const WorkerRecord::Entry& entry : record.entries) entries.push_back(entry_json(record, entry));
  return flight;
}

Json flight_for_torchfrtrace(const WorkerRecord& record) {
  Json flight = head_of(record);
  Json& entries = flight["entries"] = Json::array();
  for (const WorkerRecord::Entry& entry : record.entries) {
    const std::string_view name = torch_name(entry.operation);
    const WorkerRecord::Group* const group = record.group(entry.group);
    if (name.empty() || group == nullptr) continue;
    Json json = entry_json(record, entry);
    json["profiling_name"] = group->backend + ":" + std::string(name);
    adapt_sizes(entry.operation, json);
    entries.push_back(std::move(json));
  }
  return flight;
}

}  // namespace dlaunch::launcher
