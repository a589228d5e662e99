#include "launcher/commands/torch_flight.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/commands/pickle.h"
#include "store/base/number.h"

namespace dlaunch::launcher {
namespace {

using agent::GroupProgress;
using agent::RankProgress;
using Json = nlohmann::ordered_json;

constexpr std::string_view default_group = "default_pg";
constexpr std::size_t most_groups = 1024;
constexpr std::size_t longest_name = 100;
constexpr std::size_t most_members = 65'536;

// None: there is none, or it has another type.
template <class T>
std::optional<T> member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) return std::nullopt;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!found->is_boolean()) return std::nullopt;
  } else {
    if (!found->is_number_integer()) return std::nullopt;
  }
  return found->template get<T>();
}

Result<Json> parsed(std::string_view json) {
  constexpr int deepest = 8;  // a list of sizes in an entry in a list is half of that
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= deepest; };
  Json record = Json::parse(json, keep, false);
  if (!record.is_object())
    return Error{ErrorKind::io, "not a flight recorder of PyTorch", "", "its JSON is no object", ""};
  return record;
}

const Json& entries_of(const Json& record) {
  static const Json none = Json::array();
  const auto found = record.find("entries");
  return found == record.end() || !found->is_array() ? none : *found;
}

// Name and description; none: it is no entry.
using GroupName = std::pair<std::string, std::string>;
std::optional<GroupName> group_of(const Json& entry) {
  const auto found = entry.is_object() ? entry.find("process_group") : entry.end();
  if (!entry.is_object() || found == entry.end() || !found->is_array() || found->size() != 2 ||
      !(*found)[0].is_string() || !(*found)[1].is_string())
    return std::nullopt;
  return GroupName{(*found)[0].get<std::string>(), (*found)[1].get<std::string>()};
}

// "[0, 2, 3]" as numbers; empty: it is something else.
std::vector<int> ranks_in(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return {};
  text = text.substr(1, text.size() - 2);
  std::vector<int> ranks;
  for (std::size_t at = 0; at < text.size() && ranks.size() < most_members;) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string_view word = text.substr(at, end - at);
    while (word.starts_with(' ')) word.remove_prefix(1);
    const auto rank = parse_number<int>(word);
    if (!rank || *rank < 0) return {};
    ranks.push_back(*rank);
    at = end + 1;
  }
  return ranks;
}

// The ranks of a group, if they are known: gloo's recorder does not name them.
std::vector<int> members_of(const Json& record, const GroupName& group, int world_size) {
  std::vector<int> ranks;
  const auto groups = record.find("pg_config");
  if (groups != record.end() && groups->is_object()) {
    const auto found = groups->find(group.first);
    if (found != groups->end()) ranks = ranks_in(member<std::string>(*found, "ranks").value_or(""));
  }
  if (!ranks.empty() || group.second != default_group) return ranks;
  for (int rank = 0; rank < std::min<int>(world_size, most_members); ++rank) ranks.push_back(rank);
  return ranks;
}

// As many as a worker's page has room for; the rest of the ranks is then not named.
std::vector<page::Run> runs_of(const std::vector<int>& ranks) {
  std::vector<page::Run> runs;
  for (std::size_t i = 0; i < ranks.size() && runs.size() < page::max_runs;) {
    page::Run run{ranks[i], 1, 1};
    if (i + 1 < ranks.size()) run.stride = std::max(1, ranks[i + 1] - ranks[i]);
    for (++i; i < ranks.size() && ranks[i] - ranks[i - 1] == run.stride; ++i) ++run.count;
    runs.push_back(run);
  }
  return runs;
}

// "gloo:all_reduce", "nccl:_all_gather_base", "nccl:ALLREDUCE".
page::Operation operation_of(const std::string& name) {
  static const std::map<std::string_view, page::Operation> others{
      {"_all_gather_base", page::Operation::all_gather_into_tensor},
      {"all_gather_single", page::Operation::all_gather_into_tensor},
      {"_reduce_scatter_base", page::Operation::reduce_scatter_tensor},
      {"reduce_scatter_single", page::Operation::reduce_scatter_tensor},
      {"allreduce_coalesced", page::Operation::all_reduce_coalesced},
  };
  const std::string_view operation = std::string_view(name).substr(name.rfind(':') + 1);
  if (const auto found = others.find(operation); found != others.end()) return found->second;
  const auto* const known = std::ranges::find(page::operation_names, operation);
  return known == page::operation_names.end()
             ? page::Operation::none
             : static_cast<page::Operation>(known - page::operation_names.begin());
}

// gloo's operations stay "scheduled" for ever; NCCL's are retired too when they time out.
bool is_open(const Json& entry) {
  if (member<std::string>(entry, "state") == "completed") return false;
  const bool is_nccl = member<std::string>(entry, "profiling_name").value_or("").starts_with("nccl");
  return is_nccl || !member<bool>(entry, "retired").value_or(false);
}

void take(const Json& entry, std::int64_t unix_ns, RankProgress& rank) {
  const auto number = member<std::uint64_t>(entry, "collective_seq_id");
  if (!number || member<bool>(entry, "is_p2p").value_or(false)) return;
  rank.entered = std::max(rank.entered, *number);
  if (!is_open(entry) || *number == 0 || (rank.inside && *number > rank.done)) return;
  rank.inside = true;
  rank.done = *number - 1;
  rank.operation = operation_of(member<std::string>(entry, "profiling_name").value_or(""));
  const std::int64_t since = member<std::int64_t>(entry, "time_created_ns").value_or(unix_ns);
  rank.waited = Duration(since > 0 && since < unix_ns ? unix_ns - since : 0);
}

GroupProgress made(const Json& record, const GroupName& name, const RecordedRank& whose) {
  GroupProgress group;
  // The agents of a job are of one build: they have the same hash.
  group.identity = std::max<std::uint64_t>(1, std::hash<std::string>()(name.first + "\n" + name.second));
  const bool is_described = !name.second.empty() && name.second != "undefined";
  group.name = (is_described ? name.second : name.first).substr(0, longest_name);
  const std::vector<int> ranks = members_of(record, name, whose.world_size);
  group.size = static_cast<std::uint32_t>(ranks.size());
  group.ranks = runs_of(ranks);
  RankProgress here;
  here.rank = whose.rank;
  group.here.push_back(std::move(here));
  return group;
}

}  // namespace

Result<TorchFlight> read_torch_flight(std::string_view json, const RecordedRank& whose) {
  auto record = parsed(json);
  if (!record) return std::move(record).error();
  std::map<GroupName, GroupProgress> groups;
  TorchFlight flight;
  for (const Json& entry : entries_of(*record)) {
    const auto name = group_of(entry);
    if (!name || (groups.size() >= most_groups && !groups.contains(*name))) continue;
    ++flight.operations;
    auto found = groups.find(*name);
    if (found == groups.end()) found = groups.emplace(*name, made(*record, *name, whose)).first;
    take(entry, whose.unix_ns, found->second.here.front());
  }
  for (auto& [name, group] : groups) {
    RankProgress& here = group.here.front();
    if (!here.inside) here.done = here.entered;
    flight.waits = flight.waits || here.inside;
    flight.groups.push_back(std::move(group));
  }
  return flight;
}

Result<std::string> torch_flight_file(std::string_view json, const RecordedRank& whose) {
  auto record = parsed(json);
  if (!record) return std::move(record).error();
  Json groups = Json::object();
  Json entries = Json::array();
  for (const Json& entry : entries_of(*record)) {
    const auto name = group_of(entry);
    if (!name) continue;
    if (!groups.contains(name->first)) {
      const std::vector<int> ranks = members_of(*record, *name, whose.world_size);
      if (ranks.empty()) continue;
      groups[name->first] = {{"name", name->first}, {"desc", name->second}, {"ranks", Json(ranks).dump()}};
    }
    Json kept = entry;
    if (!kept.contains("frames")) kept["frames"] = Json::array();
    entries.push_back(std::move(kept));
  }
  (*record)["pg_config"] = std::move(groups);
  (*record)["entries"] = std::move(entries);
  return pickled(*record);
}

}  // namespace dlaunch::launcher
