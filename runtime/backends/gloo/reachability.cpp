#include "runtime/backends/gloo/reachability.h"

#include <algorithm>
#include <sstream>

namespace dlaunch::internal {

namespace {

constexpr char problem_mark = '!';

std::string counted(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " network interface" : " network interfaces");
}

std::string joined(const Addresses& addresses, const char* between) {
  std::string text;
  for (const std::string& address : addresses) text += (text.empty() ? "" : between) + address;
  return text;
}

bool has_family_of(const Addresses& addresses, const std::string& wanted) {
  return std::ranges::any_of(addresses,
                             [&](const std::string& address) { return is_ipv6(address) == is_ipv6(wanted); });
}

// The ranks whose addresses decide how the rail connects: those with an address that others can reach, or all
// ranks if there are none.
std::vector<std::size_t> deciding(const std::vector<Reachability>& all, std::size_t rail) {
  std::vector<std::size_t> outer;
  std::vector<std::size_t> every;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    every.push_back(rank);
    if (!is_loopback(all[rank].rails[rail].front())) outer.push_back(rank);
  }
  return outer.empty() ? every : outer;
}

// The first address of the first deciding rank whose family all deciding ranks have.
std::optional<std::string> common_address(const std::vector<Reachability>& all, std::size_t rail) {
  const std::vector<std::size_t> ranks = deciding(all, rail);
  for (const std::string& address : all[ranks.front()].rails[rail]) {
    const auto has_it = [&](std::size_t rank) { return has_family_of(all[rank].rails[rail], address); };
    if (std::ranges::all_of(ranks, has_it)) return address;
  }
  return std::nullopt;
}

// REQUIRES: the rail has no common address.
Disagreement no_common_family(const std::vector<Reachability>& all, std::size_t rail) {
  const std::vector<std::size_t> ranks = deciding(all, rail);
  const Addresses& first = all[ranks.front()].rails[rail];
  const auto other = *std::ranges::find_if(ranks, [&](std::size_t rank) {
    const Addresses& its = all[rank].rails[rail];
    return std::ranges::none_of(first, [&](const std::string& one) { return has_family_of(its, one); }) ||
           its.size() < first.size();
  });
  return {static_cast<int>(other), "it is reached by " + joined(all[other].rails[rail], " and ") + ", rank " +
                                       std::to_string(ranks.front()) + " by " + joined(first, " and ") +
                                       ": all ranks need IPv4, or all IPv6"};
}

}  // namespace

std::string to_text(const Reachability& reachability) {
  std::string text;
  if (!reachability.problem.empty()) {
    text = problem_mark + reachability.problem;
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }
  for (const Addresses& rail : reachability.rails) text += (text.empty() ? "" : " ") + joined(rail, ",");
  return text;
}

Reachability parse_reachability(const std::string& line) {
  if (line.starts_with(problem_mark)) return {{}, line.substr(1)};
  Reachability reachability;
  std::istringstream rails(line);
  for (std::string rail; rails >> rail;) {
    std::istringstream addresses(rail);
    Addresses& own = reachability.rails.emplace_back();
    for (std::string address; std::getline(addresses, address, ',');) own.push_back(address);
  }
  if (reachability.rails.empty()) reachability.problem = "it runs another version of libdlaunch";
  return reachability;
}

std::optional<Disagreement> disagreement(const std::vector<Reachability>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].problem.empty()) return Disagreement{static_cast<int>(rank), all[rank].problem};
  }
  const std::size_t rails = all.front().rails.size();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const std::size_t count = all[rank].rails.size();
    if (count == rails) continue;
    return Disagreement{static_cast<int>(rank),
                        "it uses " + counted(count) + ", rank 0 uses " + std::to_string(rails) +
                            ": DLAUNCH_SOCKET_IFNAME must name as many on every rank"};
  }
  for (std::size_t rail = 0; rail < rails; ++rail) {
    if (!common_address(all, rail)) return no_common_family(all, rail);
  }
  return std::nullopt;
}

std::string rail_address(const std::vector<Reachability>& all, std::size_t rail) {
  return *common_address(all, rail);
}

}  // namespace dlaunch::internal
