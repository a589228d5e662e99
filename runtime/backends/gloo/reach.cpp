#include "runtime/backends/gloo/reach.h"

#include <algorithm>
#include <sstream>

#include "runtime/backends/gloo/local_address.h"

namespace dlaunch {

namespace {

constexpr char trouble_mark = '!';

std::string counted(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " network interface" : " network interfaces");
}

}  // namespace

std::string to_text(const Reach& reach) {
  std::string text;
  if (!reach.trouble.empty()) {
    text = trouble_mark + reach.trouble;
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }
  for (const std::string& address : reach.addresses) text += (text.empty() ? "" : " ") + address;
  return text;
}

Reach parse_reach(const std::string& line) {
  if (line.starts_with(trouble_mark)) return {{}, line.substr(1)};
  Reach reach;
  std::istringstream words(line);
  for (std::string word; words >> word;) reach.addresses.push_back(word);
  if (reach.addresses.empty()) reach.trouble = "it runs another version of libdlaunch";
  return reach;
}

std::optional<Disagreement> disagreement(const std::vector<Reach>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].trouble.empty()) return Disagreement{static_cast<int>(rank), all[rank].trouble};
  }
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const std::size_t count = all[rank].addresses.size();
    const std::size_t first = all.front().addresses.size();
    if (count == first) continue;
    return Disagreement{static_cast<int>(rank),
                        "it is to use " + counted(count) + ", rank 0 " + std::to_string(first) +
                            ": DLAUNCH_SOCKET_IFNAME must name as many on every rank"};
  }
  return std::nullopt;
}

std::optional<std::string> meeting_address(const std::vector<Reach>& all) {
  for (const Reach& reach : all) {
    if (!is_loopback(reach.addresses.front())) return reach.addresses.front();
  }
  return std::nullopt;
}

}  // namespace dlaunch
