#include "launcher/commands/doctor_command.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/commands/command_parser.h"
#include "launcher/console/command_io.h"
#include "launcher/doctor/gpu_query.h"
#include "launcher/doctor/link_text.h"
#include "launcher/doctor/link_verdict.h"
#include "launcher/doctor/machine_checks.h"
#include "launcher/doctor/peer_check.h"
#include "launcher/doctor/peer_list.h"
#include "launcher/doctor/probe_process.h"
#include "launcher/flags/shell_words.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/machine/machine.h"
#include "store/base/text.h"
#include "store/client/blocking_socket.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

constexpr Duration peer_patience = std::chrono::seconds(5);

void check_port_of_peer(Findings& out, const Address& peer) {
  const std::string name = to_string(peer);
  BlockingSocket socket;
  const TimePoint start = steady_now();
  const auto connected = socket.connect(peer, start + peer_patience);
  const std::string time = to_words(steady_now() - start);
  if (connected) {
    out.push_back({Grade::ok, name + " answered after " + time, ""});
    return;
  }
  const std::string& why = connected.error().why;
  if (why.find("name") != std::string::npos) {
    out.push_back({Grade::bad, name + ": " + why, "check the name, DNS and /etc/hosts"});
  } else if (why.find("refused") != std::string::npos) {
    out.push_back({Grade::note,
                   "the host of " + name + " answered after " + time + ", but nothing listens on that port",
                   "this is normal before the job has started there; otherwise check --master-port"});
  } else {
    out.push_back({Grade::bad, name + ": " + why + " (tried for " + time + ")",
                   "check the address, routes and firewalls between here and there"});
  }
}

Result<std::vector<std::string>> words_of_ssh(const std::optional<std::string>& option) {
  const char* const variable = std::getenv("DLAUNCH_SSH");  // NOLINT(concurrency-mt-unsafe)
  const std::string text = option.value_or(variable != nullptr && *variable != '\0' ? variable : "ssh");
  auto words = split_words(text);
  if (!words || words->empty())
    return mistake("--ssh=" + text + " is not a command", "give ssh, or ssh and its options");
  if (auto found = find_program(words->front()); !found) {
    return std::move(found).error().with_hint(
        "install it (openssh-client), or name the remote shell with --ssh");
  }
  return words;
}

struct DoctorLine {
  std::optional<std::string> peers;
  std::optional<std::string> ssh;
  bool json = false;
};

int check_all(const DoctorLine& line) {
  PeerList peers;
  std::vector<std::string> ssh;
  if (line.peers) {
    auto parsed = parse_peers(*line.peers);
    if (!parsed) return fail(parsed.error());
    peers = std::move(*parsed);
  }
  if (!peers.hosts.empty()) {
    auto words = words_of_ssh(line.ssh);
    if (!words) return fail(words.error());
    ssh = std::move(*words);
  }

  const GpuFacts gpus = find_gpu_facts();
  Findings findings = check_machine(gpus);
  for (const Address& port : peers.ports) check_port_of_peer(findings, port);
  const PeerReport report = peers.hosts.empty() ? PeerReport{} : check_peers(peers.hosts, ssh);
  for (Finding& finding : judge(report)) findings.push_back(std::move(finding));
  const std::string links = table(report);
  const int failed = print(line.json ? report_json(findings, gpus, report)
                                     : describe(findings) + (links.empty() ? "" : "\n" + links));
  if (failed != 0) return failed;
  return any_is_bad(findings) ? exit_error : 0;
}

}  // namespace

int run_doctor(const std::vector<std::string>& arguments) {
  // What it starts on other hosts: no option for users, so neither the help nor a completion has it.
  if (arguments == std::vector<std::string>{"--probe"}) return run_probe();
  DoctorLine options;
  CommandParser line(
      "dlaunch doctor",
      "dlaunch doctor checks whether this machine can run jobs, and with --peer the network between hosts. "
      "Each line begins with ok, note (may matter\nfor your job) or BAD, and ends with what to do.\n\nUsage: "
      "dlaunch doctor [options]");
  line.option(
      "--peer", "HOST[:PORT],...",
      "also check the network between this and these hosts, over ssh; with a port, only that it answers",
      options.peers);
  line.option("--ssh", "COMMAND", "remote shell command and its options [ssh]", options.ssh);
  line.flag("--json", "print one JSON object", options.json);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  if (!std::get<CommandParser::Words>(*parsed).empty())
    return fail(mistake("doctor takes no arguments", "name hosts with --peer"));
  return check_all(options);
}

}  // namespace dlaunch::launcher
