#include "agent/pmix/job_data.h"

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <utility>

#include "store/base/base64.h"
#include "store/base/number.h"

namespace dlaunch::agent {
namespace {

constexpr int most_ranks = 1 << 24;

template <class Value>
void load(pmix_info_t& info, const char* key, const Value& value, pmix_data_type_t type) {
  PMIx_Info_load(&info, key, &value, type);
}
void load(pmix_info_t& info, const char* key, const std::string& text) {
  PMIx_Info_load(&info, key, text.c_str(), PMIX_STRING);
}

// "(vector,(0,2,4),(2,1,3))": from node 0 two nodes of four ranks each, then one of three. Empty: no such
// list.
std::vector<int> nodes_in(std::string_view mapping) {
  std::vector<int> nodes;
  std::vector<int> numbers;
  std::size_t at = mapping.find(',');
  while (at != std::string_view::npos && at + 1 < mapping.size()) {
    const std::size_t begin = mapping.find_first_of("0123456789", at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(mapping.find_first_not_of("0123456789", begin), mapping.size());
    numbers.push_back(parse_number<int>(mapping.substr(begin, end - begin)).value_or(most_ranks));
    at = end;
  }
  std::int64_t ranks = 0;
  for (std::size_t i = 0; i + 2 < numbers.size(); i += 3) {
    ranks += std::int64_t{numbers[i + 1]} * numbers[i + 2];
    if (ranks > most_ranks) return {};
    nodes.insert(nodes.end(), static_cast<std::size_t>(numbers[i + 1]), numbers[i + 2]);
  }
  return nodes;
}

}  // namespace

int PmixWorld::size() const { return std::accumulate(of_nodes.begin(), of_nodes.end(), 0); }

std::string PmixWorld::node_name(std::size_t node) const { return "node" + std::to_string(node); }

std::optional<PmixWorld> world_of(const PmiRequest& description) {
  const auto number = [&](const char* name) {
    return parse_number<int>(description.value(name).value_or("")).value_or(-1);
  };
  PmixWorld world{.name = description.value("name").value_or(""),
                  .base_rank = number("rank"),
                  .slots = number("slots"),
                  .of_nodes = nodes_in(description.value("mapping").value_or("")),
                  .folder = from_base64(description.value("folder").value_or("")).value_or("")};
  const int size = number("size");
  if (description.command() != "world" || world.name.empty() || world.name.size() > PMIX_MAX_NSLEN ||
      world.base_rank < 0 || world.slots <= 0 || size > most_ranks || world.base_rank + world.slots > size)
    return std::nullopt;
  int begin = 0;
  while (world.own_node < world.of_nodes.size() && begin < world.base_rank)
    begin += world.of_nodes[world.own_node++];
  const bool is_whole = world.size() == size && begin == world.base_rank &&
                        world.own_node < world.of_nodes.size() &&
                        world.of_nodes[world.own_node] == world.slots;
  if (is_whole) return world;
  // Not known: which ranks are here is what matters.
  world.of_nodes.clear();
  if (world.base_rank > 0) world.of_nodes.push_back(world.base_rank);
  world.own_node = world.of_nodes.size();
  world.of_nodes.push_back(world.slots);
  if (world.size() < size) world.of_nodes.push_back(size - world.size());
  return world;
}

JobData::JobData(const PmixWorld& world) {
  const auto size = static_cast<std::uint32_t>(world.size());
  const auto slots = static_cast<std::uint32_t>(world.slots);
  const auto one = std::uint32_t{1};
  const auto first = static_cast<pmix_rank_t>(world.base_rank);
  for (const char* key : {PMIX_JOB_SIZE, PMIX_UNIV_SIZE, PMIX_MAX_PROCS})
    load(infos_.emplace_back(), key, size, PMIX_UINT32);
  for (const char* key : {PMIX_LOCAL_SIZE, PMIX_NODE_SIZE})
    load(infos_.emplace_back(), key, slots, PMIX_UINT32);
  load(infos_.emplace_back(), PMIX_JOB_NUM_APPS, one, PMIX_UINT32);
  load(infos_.emplace_back(), PMIX_NUM_NODES, static_cast<std::uint32_t>(world.of_nodes.size()), PMIX_UINT32);
  load(infos_.emplace_back(), PMIX_LOCALLDR, first, PMIX_PROC_RANK);
  load(infos_.emplace_back(), PMIX_JOBID, world.name);
  if (!world.folder.empty()) {
    load(infos_.emplace_back(), PMIX_TMPDIR, world.folder);
    load(infos_.emplace_back(), PMIX_NSDIR, world.folder);
  }
  add_map(world);
  int rank = 0;
  for (std::size_t node = 0; node < world.of_nodes.size(); ++node) {
    for (int local_rank = 0; local_rank < world.of_nodes[node]; ++local_rank)
      add_rank(world, rank++, local_rank, node);
  }
}

JobData::~JobData() {
  for (pmix_info_t& info : infos_) PMIX_INFO_DESTRUCT(&info);
}

void JobData::add_map(const PmixWorld& world) {
  std::string names;
  std::string ranks;
  std::string peers;
  int rank = 0;
  for (std::size_t node = 0; node < world.of_nodes.size(); ++node) {
    names += (node == 0 ? "" : ",") + world.node_name(node);
    std::string here;
    for (int i = 0; i < world.of_nodes[node]; ++i) here += (i == 0 ? "" : ",") + std::to_string(rank++);
    ranks += (node == 0 ? "" : ";") + here;
    if (node == world.own_node) peers = here;
  }
  char* coded = nullptr;
  if (PMIx_generate_regex(names.c_str(), &coded) == PMIX_SUCCESS)
    PMIx_Info_load(&infos_.emplace_back(), PMIX_NODE_MAP, coded, PMIX_REGEX);
  std::free(std::exchange(coded, nullptr));
  if (PMIx_generate_ppn(ranks.c_str(), &coded) == PMIX_SUCCESS)
    PMIx_Info_load(&infos_.emplace_back(), PMIX_PROC_MAP, coded, PMIX_REGEX);
  std::free(coded);
  load(infos_.emplace_back(), PMIX_LOCAL_PEERS, peers);
}

void JobData::add_rank(const PmixWorld& world, int rank, int local_rank, std::size_t node) {
  constexpr std::size_t facts = 8;
  pmix_data_array_t* array = nullptr;
  PMIX_DATA_ARRAY_CREATE(array, facts, PMIX_INFO);
  auto* const info = static_cast<pmix_info_t*>(array->array);
  const auto number = static_cast<pmix_rank_t>(rank);
  const auto here = static_cast<std::uint16_t>(local_rank);
  const auto app = std::uint32_t{0};
  load(info[0], PMIX_RANK, number, PMIX_PROC_RANK);
  load(info[1], PMIX_GLOBAL_RANK, number, PMIX_PROC_RANK);
  load(info[2], PMIX_APP_RANK, number, PMIX_PROC_RANK);
  load(info[3], PMIX_LOCAL_RANK, here, PMIX_UINT16);
  load(info[4], PMIX_NODE_RANK, here, PMIX_UINT16);
  load(info[5], PMIX_APPNUM, app, PMIX_UINT32);
  load(info[6], PMIX_NODEID, static_cast<std::uint32_t>(node), PMIX_UINT32);
  load(info[7], PMIX_HOSTNAME, world.node_name(node));
  PMIx_Info_load(&infos_.emplace_back(), PMIX_PROC_INFO_ARRAY, array, PMIX_DATA_ARRAY);
  PMIX_DATA_ARRAY_FREE(array);
}

}  // namespace dlaunch::agent
