#include "launcher/doctor/peer_check.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <system_error>
#include <tuple>

#include "launcher/doctor/link_text.h"
#include "launcher/doctor/machine_checks.h"
#include "launcher/doctor/remote_probe.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/process_limits.h"
#include "launcher/remote/local_host.h"
#include "launcher/remote/remote_plan.h"
#include "launcher/remote/ssh_diagnosis.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration start_limit = std::chrono::seconds(20);
constexpr Duration measure_limit = std::chrono::seconds(45);
constexpr Duration end_limit = std::chrono::seconds(5);

struct Peer {
  HostEntry entry;
  bool here = false;
  std::string address;  // by which the other hosts connect to it
  std::vector<std::string> command;
  std::unique_ptr<RemoteProbe> probe = std::make_unique<RemoteProbe>();
};

// The user's options come first, and ssh uses the first of two values.
std::vector<std::string> impatient(std::vector<std::string> ssh) {
  const std::string& program = ssh.front();
  if (program.substr(program.rfind('/') + 1) == "ssh") {
    ssh.emplace_back("-o");
    ssh.emplace_back("ConnectTimeout=10");
  }
  return ssh;
}

std::vector<Peer> peers_of(const std::vector<HostEntry>& hosts, const std::vector<std::string>& ssh) {
  const std::vector<bool> here = are_local_hosts(hosts);
  std::vector<Peer> peers;
  if (std::find(here.begin(), here.end(), true) == here.end()) {
    std::vector<Address> others;
    others.reserve(hosts.size());
    for (const HostEntry& host : hosts) others.push_back({bare_host(host.name), usual_port});
    auto own = local_address_towards(others);
    Peer self;
    self.entry.name = host_name();
    self.here = true;
    self.address = own ? *own : self.entry.name;
    peers.push_back(std::move(self));
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    Peer peer;
    peer.entry = hosts[i];
    peer.here = here[i];
    peer.address = bare_host(hosts[i].name);
    peers.push_back(std::move(peer));
  }
  for (Peer& peer : peers) peer.command = command_to(peer.entry, peer.here, impatient(ssh));
  return peers;
}

std::string why_not(const Peer& peer) {
  const RemoteProbe& probe = *peer.probe;
  if (!probe.ended()) {
    return "it did not answer for " + to_words(start_limit) + ": '" + peer.command.front() + " " +
           peer.entry.name + " true' must succeed without a prompt";
  }
  return why_not_started({bare_host(peer.entry.name), peer.entry.name, 0, peer.command.front(),
                          *probe.ended(), probe.stderr_tail()});
}

std::vector<CheckedHost> start_probes(std::vector<Peer>& peers) {
  RemoteFacts facts;
  std::error_code failed;
  facts.executable = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  facts.folder = "/";
  const std::string script = script_of(facts, {}, {facts.executable, "doctor", "--probe"});
  std::vector<CheckedHost> hosts;
  std::vector<RemoteProbe*> started;
  for (Peer& peer : peers) {
    hosts.push_back({bare_host(peer.entry.name), std::nullopt, ""});
    if (auto spawned = peer.probe->start(peer.command, script); spawned) {
      started.push_back(peer.probe.get());
    } else {
      hosts.back().why = spawned.error().message();
    }
  }
  RemoteProbe::await_lines(started, steady_now() + start_limit);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (!hosts[i].why.empty()) continue;
    const auto line = peers[i].probe->take_line();
    if (!line) {
      hosts[i].why = why_not(peers[i]);
    } else if (auto read = host_facts_from(*line); read) {
      hosts[i].facts = std::move(*read);
    } else {
      hosts[i].why = read.error().message();
    }
  }
  return hosts;
}

// All these hosts measure at once, each its way to the host `round` places after it: so each sends to one,
// and gets from one.
void measure_round(std::vector<Peer>& peers, const std::vector<std::size_t>& up, std::size_t round,
                   PeerReport& report) {
  std::vector<RemoteProbe*> asked;
  const std::size_t first = report.links.size();
  for (std::size_t i = 0; i < up.size(); ++i) {
    CheckedLink link{up[i], up[(i + round) % up.size()], std::nullopt, ""};
    const HostFacts& there = *report.hosts[link.to].facts;
    RemoteProbe& probe = *peers[link.from].probe;
    const std::string order =
        to_json(ProbeTarget{peers[link.to].address, there.job_port, there.data_port, there.key});
    if (probe.send(order + "\n")) asked.push_back(&probe);
    report.links.push_back(std::move(link));
  }
  RemoteProbe::await_lines(asked, steady_now() + measure_limit);
  for (std::size_t i = first; i < report.links.size(); ++i) {
    CheckedLink& link = report.links[i];
    const auto line = peers[link.from].probe->take_line();
    if (!line) {
      link.why = peers[link.from].probe->ended() ? "its probe has ended, or ssh has lost the connection to it"
                                                 : "its probe did not answer for " + to_words(measure_limit);
      peers[link.from].probe->end_input();  // what it answers later is about this link, not the next one
    } else if (auto read = link_measurement_from(*line); read) {
      link.found = std::move(*read);
    } else {
      link.why = read.error().message();
    }
  }
}

}  // namespace

PeerReport check_peers(const std::vector<HostEntry>& hosts, const std::vector<std::string>& ssh) {
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();  // three for each host
  std::vector<Peer> peers = peers_of(hosts, ssh);
  PeerReport report;
  report.hosts = start_probes(peers);
  std::vector<std::size_t> up;
  for (std::size_t i = 0; i < report.hosts.size(); ++i) {
    if (report.hosts[i].facts) up.push_back(i);
  }
  for (std::size_t round = 1; round < up.size(); ++round) measure_round(peers, up, round, report);
  std::sort(report.links.begin(), report.links.end(), [](const CheckedLink& a, const CheckedLink& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  });
  std::vector<RemoteProbe*> ending;
  for (const std::size_t i : up) {
    peers[i].probe->end_input();
    ending.push_back(peers[i].probe.get());
  }
  RemoteProbe::await_ends(ending, steady_now() + end_limit);
  return report;
}

}  // namespace dlaunch::launcher
