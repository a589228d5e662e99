#include "launcher/doctor/link_verdict.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <vector>

#include "store/base/text.h"

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

// Below, a note. A link of 1 Gbit/s carries 117 MB/s.
constexpr double enough_speed = 100e6;
constexpr double lopsided = 2;  // times faster in one direction
constexpr std::int64_t enough_latency_ns = 2'000'000;
constexpr std::int64_t enough_clock_ns = 100'000'000;

std::string with_unit(double number, const char* unit) {
  char text[32];
  std::snprintf(text, sizeof text,
                number < 10    ? "%.2f %s"
                : number < 100 ? "%.1f %s"
                               : "%.0f %s",
                number, unit);
  return text;
}

std::string speed_words(double bytes_per_second) {
  constexpr double mega = 1e6;
  constexpr double giga = 1e9;
  return bytes_per_second >= giga ? with_unit(bytes_per_second / giga, "GB/s")
                                  : with_unit(bytes_per_second / mega, "MB/s");
}

std::string time_words(std::int64_t ns) {
  constexpr double milli = 1e6;
  constexpr double second = 1e9;
  const auto number = static_cast<double>(ns);
  return std::abs(number) >= second ? with_unit(number / second, "s") : with_unit(number / milli, "ms");
}

bool open(const PortTry& port) { return port.state == PortTry::State::open; }
bool failed(const PortTry& port) { return port.state == PortTry::State::failed; }

// "a cannot connect to b".
std::string names(const PeerReport& report, const CheckedLink& link, const std::string& between) {
  return report.hosts[link.from].name + between + report.hosts[link.to].name;
}

bool is_reached(const CheckedLink& link) { return link.found && open(link.found->data_port); }

const CheckedLink* way_back(const PeerReport& report, const CheckedLink& link) {
  const auto found = std::find_if(report.links.begin(), report.links.end(), [&](const CheckedLink& other) {
    return other.from == link.to && other.to == link.from;
  });
  return found == report.links.end() ? nullptr : &*found;
}

void judge_hosts(const PeerReport& report, Findings& out) {
  for (const CheckedHost& host : report.hosts) {
    if (!host.facts) {
      out.push_back({Grade::bad, "dlaunch cannot be started on " + host.name,
                     host.why + "; without ssh, HOST:PORT checks a port"});
    } else if (host.facts->job_port == 0) {
      out.push_back(
          {Grade::note, "the usual port of jobs was not tried on " + host.name, host.facts->why_not});
    }
  }
}

void judge_versions(const PeerReport& report, Findings& out) {
  std::map<std::string, std::vector<std::string>> by_version;
  for (const CheckedHost& host : report.hosts) {
    if (host.facts) {
      by_version[host.facts->version + " (agents' protocol " + std::to_string(host.facts->protocol) + ")"]
          .push_back(host.name);
    }
  }
  if (by_version.size() < 2) return;
  std::vector<std::string> parts;
  parts.reserve(by_version.size());
  for (const auto& [version, hosts] : by_version) parts.push_back(version + " on " + join(hosts, ", "));
  out.push_back({Grade::bad, "the hosts have different versions of dlaunch: " + join(parts, "; "),
                 "install one version on all of them"});
}

std::string why_closed(const CheckedLink& link) { return link.found ? link.found->data_port.why : link.why; }

// The pair cannot connect, in one direction or in both.
void judge_unreached(const PeerReport& report, const CheckedLink& link, Findings& out) {
  const CheckedLink* const back = way_back(report, link);
  const bool is_first = link.from < link.to;
  if (!link.found) {
    out.push_back({Grade::bad, names(report, link, " did not measure its way to ") + ": " + link.why,
                   "run it again; see whether that host is overloaded"});
    return;
  }
  if (open(link.found->job_port)) {
    out.push_back(
        {Grade::bad,
         names(report, link, " reaches only the usual port of jobs on ") + ", no other: " + why_closed(link),
         "workers listen at ports that the kernel chooses (net.ipv4.ip_local_port_range): allow these "
         "between the "
         "hosts"});
  } else if (back != nullptr && is_reached(*back)) {
    out.push_back({Grade::bad,
                   names(report, link, " cannot connect to ") + " (" + why_closed(link) + "), but " +
                       names(report, *back, " can connect to "),
                   "a firewall on one of them or between them rejects or drops connections from " +
                       report.hosts[link.from].name + ": allow them"});
  } else if (back == nullptr || is_first || !back->found || open(back->found->job_port)) {
    out.push_back({Grade::bad,
                   names(report, link, " and ") + " cannot connect to each other: " + why_closed(link),
                   "check addresses, routes and firewalls between them"});
  }
}

void judge_packets(const PeerReport& report, const CheckedLink& link, Findings& out) {
  const LinkMeasurement& found = *link.found;
  if (!found.broke_off.empty()) {
    out.push_back({Grade::bad, names(report, link, " reaches ") + ", but then: " + found.broke_off,
                   "check what limits or inspects connections between them; is that host overloaded?"});
  } else if (!found.large_packets_pass) {
    const std::string size = std::to_string(found.mtu);
    const std::string passing = std::to_string(found.passing);
    out.push_back({Grade::bad,
                   "packets of " + size + " bytes from " + names(report, link, " to ") + " are lost, " +
                       (found.passing > 0 ? "packets of " + passing + " arrive" : "and smaller ones, too"),
                   found.passing > 0
                       ? "set the MTU of " + report.hosts[link.from].name +
                             "'s interface to what the network carries (ip link set DEVICE mtu " + passing +
                             "), or let ICMP 'fragmentation needed' pass"
                       : "check cables and switches between them"});
  }
}

void judge_speed(const PeerReport& report, const CheckedLink& link, Findings& out) {
  const LinkMeasurement& found = *link.found;
  const CheckedLink* const back = way_back(report, link);
  const double speed = found.bytes_per_second;
  const double speed_back = back != nullptr && back->found ? back->found->bytes_per_second : 0;
  if (speed > 0 && speed < enough_speed) {
    out.push_back(
        {Grade::note, names(report, link, " sends to ") + " only " + speed_words(speed),
         "a gradient of 1 GB takes " + time_words(static_cast<std::int64_t>(1e18 / speed)) +
             ": check the link (ethtool DEVICE), and whether the hosts' names lead to the fast network"});
  } else if (speed > 0 && speed_back > lopsided * speed) {
    out.push_back({Grade::note,
                   names(report, link, " sends to ") + " " + speed_words(speed) + ", and gets " +
                       speed_words(speed_back),
                   "check cable, duplex and other traffic"});
  }
  if (found.latency_ns > enough_latency_ns) {
    out.push_back(
        {Grade::note,
         "a message from " + names(report, link, " to ") + " and back takes " + time_words(found.latency_ns),
         "collectives of small tensors take at least as long"});
  }
}

void judge_pair(const PeerReport& report, const CheckedLink& link, Findings& out) {
  const CheckedLink* const back = way_back(report, link);
  if (back == nullptr || link.from > link.to) return;
  const LinkMeasurement& found = *link.found;
  if (is_reached(*back) && back->found->mtu != found.mtu && found.mtu > 0 && back->found->mtu > 0) {
    out.push_back({Grade::note,
                   "packets from " + names(report, link, " to ") + " have up to " +
                       std::to_string(found.mtu) + " bytes, back " + std::to_string(back->found->mtu),
                   "set the same MTU on both"});
  }
  const std::int64_t difference = std::abs(found.clock_ahead_ns);
  if (difference > enough_clock_ns && difference - found.clock_error_ns > enough_clock_ns) {
    const bool is_ahead = found.clock_ahead_ns > 0;
    out.push_back({Grade::note,
                   "the clock of " + report.hosts[is_ahead ? link.to : link.from].name + " is " +
                       time_words(difference) + " ahead of " +
                       report.hosts[is_ahead ? link.from : link.to].name + "'s",
                   "times in logs and traces do not fit together: run chrony or another NTP client"});
  }
}

struct Row {
  std::array<std::string, 7> cells;
};

Row row_of(const PeerReport& report, const CheckedLink& link) {
  const std::string nothing = "-";
  Row row{{report.hosts[link.from].name, report.hosts[link.to].name, nothing, nothing, nothing, nothing,
           nothing}};
  if (!link.found) {
    row.cells[2] = "not measured";
    return row;
  }
  const LinkMeasurement& found = *link.found;
  if (!open(found.data_port)) {
    row.cells[2] = open(found.job_port) ? "only 29500" : "closed";
    return row;
  }
  row.cells[2] = failed(found.job_port) ? "not 29500" : "open";
  if (found.latency_ns > 0) {
    row.cells[4] = time_words(found.latency_ns);
    row.cells[6] = (found.clock_ahead_ns > 0 ? "+" : "") + time_words(found.clock_ahead_ns);
  }
  if (!found.broke_off.empty()) return row;
  row.cells[3] = found.large_packets_pass ? std::to_string(found.mtu) : std::to_string(found.mtu) + " lost";
  if (found.bytes_per_second > 0) row.cells[5] = speed_words(found.bytes_per_second);
  return row;
}

}  // namespace

Findings judge(const PeerReport& report) {
  Findings out;
  judge_hosts(report, out);
  judge_versions(report, out);
  for (const CheckedLink& link : report.links) {
    if (!is_reached(link)) {
      judge_unreached(report, link, out);
      continue;
    }
    if (failed(link.found->job_port)) {
      out.push_back({Grade::bad,
                     names(report, link, " does not reach the usual port of jobs, 29500, on ") + ": " +
                         link.found->job_port.why,
                     "allow that port, or choose another --master-port"});
    }
    judge_packets(report, link, out);
    judge_speed(report, link, out);
    judge_pair(report, link, out);
  }
  if (!any_is_bad(out) && !report.links.empty()) {
    std::vector<std::string> all;
    all.reserve(report.hosts.size());
    for (const CheckedHost& host : report.hosts) all.push_back(host.name);
    out.insert(out.begin(), {Grade::ok, join(all, ", ") + " reach each other in both directions", ""});
  }
  return out;
}

std::string table(const PeerReport& report) {
  if (report.links.empty()) return "";
  std::vector<Row> rows{{{"from", "to", "ports", "packets", "latency", "bandwidth", "clock"}}};
  for (const CheckedLink& link : report.links) rows.push_back(row_of(report, link));
  std::array<std::size_t, 7> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row.cells[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      line += row.cells[i] + std::string(widths[i] - row.cells[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace dlaunch::launcher
