#include "runtime/backends/mpi/mpi_host_ranks.h"

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "store/base/number.h"

namespace dlaunch::internal {

namespace {

constexpr std::array<std::string_view, 6> sizes = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                                   "MV2_COMM_WORLD_LOCAL_SIZE",  "LOCAL_WORLD_SIZE",
                                                   "JSM_NAMESPACE_LOCAL_SIZE",   "PALS_LOCAL_SIZE"};

// The number at the front of the text, which loses it.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Whether that was at the front of the text, which loses it.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The tasks of one node, from those of each: "2(x3),1".
std::optional<int> tasks_of_node(std::string_view all, int node) {
  for (;;) {
    const std::optional<int> tasks = take_number(all);
    if (!tasks || *tasks <= 0) return std::nullopt;
    int nodes = 1;
    if (take(all, "(x")) {
      nodes = take_number(all).value_or(0);
      if (nodes <= 0 || !take(all, ")")) return std::nullopt;
    }
    if (node < nodes) return tasks;
    node -= nodes;
    if (!take(all, ",")) return std::nullopt;
  }
}

std::optional<int> by_slurm(const Environment& environment) {
  const std::optional<std::string> tasks = environment("SLURM_STEP_TASKS_PER_NODE");
  const std::optional<std::string> node = environment("SLURM_NODEID");
  if (!tasks || !node) return std::nullopt;
  const std::optional<int> place = store::parse_number<int>(*node);
  return place && *place >= 0 ? tasks_of_node(*tasks, *place) : std::nullopt;
}

}  // namespace

std::optional<int> ranks_on_host(const Environment& environment) {
  for (const std::string_view name : sizes) {
    const std::optional<std::string> text = environment(name);
    const std::optional<int> size = text ? store::parse_number<int>(*text) : std::nullopt;
    if (size && *size > 0) return size;
  }
  return by_slurm(environment);
}

}  // namespace dlaunch::internal
