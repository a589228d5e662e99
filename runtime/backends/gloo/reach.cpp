#include "runtime/backends/gloo/reach.h"

#include <algorithm>
#include <sstream>

namespace dlaunch {

namespace {

constexpr char trouble_mark = '!';

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

// The ranks whose addresses say how the lane connects: those with one that others can reach, or, if there are
// none, all.
std::vector<std::size_t> deciding(const std::vector<Reach>& all, std::size_t lane) {
  std::vector<std::size_t> outer;
  std::vector<std::size_t> every;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    every.push_back(rank);
    if (!is_loopback(all[rank].lanes[lane].front())) outer.push_back(rank);
  }
  return outer.empty() ? every : outer;
}

// The first of the first deciding rank's of whose family all deciding ranks have one.
std::optional<std::string> common_address(const std::vector<Reach>& all, std::size_t lane) {
  const std::vector<std::size_t> ranks = deciding(all, lane);
  for (const std::string& address : all[ranks.front()].lanes[lane]) {
    const auto has_it = [&](std::size_t rank) { return has_family_of(all[rank].lanes[lane], address); };
    if (std::ranges::all_of(ranks, has_it)) return address;
  }
  return std::nullopt;
}

// REQUIRES: the lane has no common address.
Disagreement no_common_family(const std::vector<Reach>& all, std::size_t lane) {
  const std::vector<std::size_t> ranks = deciding(all, lane);
  const Addresses& first = all[ranks.front()].lanes[lane];
  const auto other = *std::ranges::find_if(ranks, [&](std::size_t rank) {
    const Addresses& its = all[rank].lanes[lane];
    return std::ranges::none_of(first, [&](const std::string& one) { return has_family_of(its, one); }) ||
           its.size() < first.size();
  });
  return {static_cast<int>(other), "it is reached by " + joined(all[other].lanes[lane], " and ") + ", rank " +
                                       std::to_string(ranks.front()) + " by " + joined(first, " and ") +
                                       ": all ranks need IPv4, or all IPv6"};
}

}  // namespace

std::string to_text(const Reach& reach) {
  std::string text;
  if (!reach.trouble.empty()) {
    text = trouble_mark + reach.trouble;
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }
  for (const Addresses& lane : reach.lanes) text += (text.empty() ? "" : " ") + joined(lane, ",");
  return text;
}

Reach parse_reach(const std::string& line) {
  if (line.starts_with(trouble_mark)) return {{}, line.substr(1)};
  Reach reach;
  std::istringstream lanes(line);
  for (std::string lane; lanes >> lane;) {
    std::istringstream addresses(lane);
    Addresses& own = reach.lanes.emplace_back();
    for (std::string address; std::getline(addresses, address, ',');) own.push_back(address);
  }
  if (reach.lanes.empty()) reach.trouble = "it runs another version of libdlaunch";
  return reach;
}

std::optional<Disagreement> disagreement(const std::vector<Reach>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].trouble.empty()) return Disagreement{static_cast<int>(rank), all[rank].trouble};
  }
  const std::size_t lanes = all.front().lanes.size();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const std::size_t count = all[rank].lanes.size();
    if (count == lanes) continue;
    return Disagreement{static_cast<int>(rank),
                        "it is to use " + counted(count) + ", rank 0 " + std::to_string(lanes) +
                            ": DLAUNCH_SOCKET_IFNAME must name as many on every rank"};
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (!common_address(all, lane)) return no_common_family(all, lane);
  }
  return std::nullopt;
}

std::string meeting_address(const std::vector<Reach>& all, std::size_t lane) {
  return *common_address(all, lane);
}

}  // namespace dlaunch
