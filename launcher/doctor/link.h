// What hosts find out about themselves and about the network between them, as values. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dlaunch::launcher {

// What a host's probe reports first.
struct HostFacts {
  std::string version;  // of its dlaunch: "0.2.0"
  int protocol = 0;     // of its agents
  std::string key;      // that connections to its ports must begin with
  int job_port = 0;     // it listens at the default port of jobs; 0: it cannot
  std::string why_not;  // why it cannot
  int data_port = 0;    // it listens at a port that the kernel chose, as workers do

  bool operator==(const HostFacts&) const = default;
};

// What a probe is ordered to measure: the way to this host.
struct ProbeTarget {
  std::string host;
  int job_port = 0;  // 0: is not tried
  int data_port = 0;
  std::string key;

  bool operator==(const ProbeTarget&) const = default;
};

struct PortTry {
  enum class State : std::uint8_t { not_tried, open, failed };
  State state = State::not_tried;
  std::string why;  // "no answer for 3 s"

  bool operator==(const PortTry&) const = default;
};

// What a host has found of its way to another. What comes after a failure is not measured, and 0.
struct LinkMeasurement {
  PortTry job_port;
  PortTry data_port;
  std::string broke_off;             // why the measurement ended early, once connected; empty: it did not
  int mtu = 0;                       // of the way, as the kernel believes: bytes of a packet
  bool large_packets_pass = false;   // packets of that size
  int passing = 0;                   // if they do not: the size of packets that do; 0: none of those tried
  std::int64_t latency_ns = 0;       // there and back, the median
  double bytes_per_second = 0;       // to the other host
  std::int64_t retransmissions = 0;  // of segments, meanwhile
  std::int64_t clock_ahead_ns = 0;   // the other host's clock minus this one's
  std::int64_t clock_error_ns = 0;   // it is so exact

  bool operator==(const LinkMeasurement&) const = default;
};

struct CheckedHost {
  std::string name;                // as the user calls it
  std::optional<HostFacts> facts;  // none: its probe did not start
  std::string why;                 // why not, with what to do
};

struct CheckedLink {
  std::size_t from = 0;  // a place in `hosts`
  std::size_t to = 0;
  std::optional<LinkMeasurement> found;
  std::string why;  // why there is none
};

struct PeerReport {
  std::vector<CheckedHost> hosts;
  std::vector<CheckedLink> links;  // by `from`, then `to`; of hosts whose probe started
};

}  // namespace dlaunch::launcher
