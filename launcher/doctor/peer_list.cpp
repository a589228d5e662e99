#include "launcher/doctor/peer_list.h"

#include <algorithm>
#include <string_view>

#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {
namespace {

bool names_a_port(const std::string& item) {
  if (item.starts_with('[')) return item.find("]:") != std::string::npos;
  return std::count(item.begin(), item.end(), ':') == 1;
}

}  // namespace

Result<PeerList> parse_peers(const std::string& text) {
  const std::string advice = "give HOST, HOST,HOST or HOST:PORT";
  if (text.empty()) return mistake("--peer is empty", advice + "; is a shell variable empty?");
  PeerList peers;
  std::string hosts;
  for (const std::string_view part : items_of(text)) {
    const std::string item(part);
    if (!names_a_port(item)) {
      hosts += (hosts.empty() ? "" : ",") + item;
      if (item.empty()) return mistake("--peer=" + text + " has an empty part", advice);
      continue;
    }
    auto address = parse_address(item, 0);
    if (!address) return mistake("--peer: " + address.error().message(), advice);
    if (address->port == 0) return mistake("--peer: port 0 is no port of a peer", advice);
    peers.ports.push_back(std::move(*address));
  }
  if (hosts.empty()) return peers;
  auto entries = parse_hosts(hosts, "--peer");
  if (!entries) return std::move(entries).error();
  peers.hosts = std::move(*entries);
  return peers;
}

}  // namespace dlaunch::launcher
