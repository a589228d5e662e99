#include "launcher/commands/doctor_command.h"

#include <optional>

#include "launcher/commands/command_parser.h"
#include "launcher/console/command_io.h"
#include "launcher/doctor/machine_checks.h"
#include "launcher/flags/value_parsers.h"
#include "store/base/text.h"
#include "store/client/blocking_socket.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

constexpr Duration peer_patience = std::chrono::seconds(5);

void check_peer(Findings& out, const Address& peer) {
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

Result<Address> peer_named(const std::string& text) {
  if (text.empty()) return mistake("--peer is empty", "give host or host:port; is a shell variable empty?");
  auto peer = parse_address(text, usual_port);
  if (!peer) return mistake("--peer: " + peer.error().message(), "give host or host:port");
  return peer;
}

}  // namespace

int run_doctor(const std::vector<std::string>& arguments) {
  std::optional<std::string> peer_name;
  CommandParser line(
      "dlaunch doctor",
      "dlaunch doctor checks whether this machine can run jobs. Each line begins with ok, note (may "
      "matter\nfor your job) or BAD, and ends with what to do.\n\nUsage: dlaunch doctor [options]");
  line.option("--peer", "HOST[:PORT]", "also check the connection to another host [port 29500]", peer_name);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  if (!std::get<CommandParser::Words>(*parsed).empty())
    return fail(mistake("doctor takes no arguments", "name a host with --peer"));
  const auto peer = peer_name ? std::optional(peer_named(*peer_name)) : std::nullopt;
  if (peer && !*peer) return fail(peer->error());

  Findings findings = check_machine();
  if (peer) check_peer(findings, **peer);
  if (const int failed = print(describe(findings)); failed != 0) return failed;
  return any_is_bad(findings) ? exit_error : 0;
}

}  // namespace dlaunch::launcher
