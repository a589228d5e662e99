// Foreign texts: --config's JSON, a scheduler's list of hosts, files of hosts, the kernel's lists of CPUs.
// Any text is parsed or rejected with one line, in bounded memory.

#include <algorithm>
#include <set>
#include <string>

#include "launcher/flags/config_file.h"
#include "launcher/options/options_from_settings.h"
#include "launcher/remote/host_file.h"
#include "launcher/scheduler/host_list.h"
#include "launcher/topology/cpu_list.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::launcher;

void host_list(const std::string& text) {
  constexpr std::size_t most = 1000;
  auto hosts = expand_hosts(text, most);
  if (!hosts) return;
  require(!hosts->empty() && hosts->size() <= most);
}

// Each host is listed once, none could be an option for a remote shell, and the list parses back to itself.
void host_file(const std::string& text) {
  auto hosts = parse_host_file(text, "f");
  if (!hosts) {
    require(hosts.error().message().find('\n') == std::string::npos);
    return;
  }
  require(!hosts->empty());
  std::set<std::string> names;
  std::string again;
  for (const HostEntry& host : *hosts) {
    require(names.insert(host.name).second && !host.name.empty() && host.name.front() != '-');
    require(host.name.find_first_of(" \t\n'\"$`;&|<>()/") == std::string::npos);
    require(!bare_host(host.name).empty() && bare_host(host.name).front() != '-');
    again += host.name + (host.slots > 0 ? " slots=" + std::to_string(host.slots) : "") + "\n";
  }
  auto back = parse_host_file(again, "f");
  require(back && *back == *hosts);
}

void cpu_list(const std::string& text) {
  auto cpus = parse_cpu_list(text);
  if (!cpus) return;
  require(std::is_sorted(cpus->begin(), cpus->end()));
  require(*parse_cpu_list(to_list(*cpus)) == *cpus);
}

// Keys and values become options.
void config(const std::string& text) {
  auto settings = settings_from_json(text, "f");
  if (!settings) {
    require(settings.error().kind == ErrorKind::invalid);
    return;
  }
  if (auto options = options_from_settings(*settings); !options)
    require(options.error().kind == ErrorKind::invalid);
}

void fuzz(FuzzInput input) {
  const unsigned kind = input.choice() % 4U;
  const std::string text(input.text());
  switch (kind) {
    case 0:
      config(text);
      break;
    case 1:
      host_list(text);
      break;
    case 2:
      cpu_list(text);
      break;
    default:
      host_file(text);
  }
}

}  // namespace
