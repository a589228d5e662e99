// Foreign texts: --config's JSON, a scheduler's list of hosts, files of hosts, the kernel's lists of CPUs.
// Any text is parsed or rejected with one line, in bounded memory.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "launcher/flags/config_file.h"
#include "launcher/options/options_from_settings.h"
#include "launcher/remote/host_file.h"
#include "launcher/scheduler/host_list.h"
#include "launcher/topology/cpu_list.h"

namespace {

using namespace dlaunch::launcher;

void check(bool holds) {
  if (!holds) std::abort();
}

void host_list(const std::string& text) {
  constexpr std::size_t most = 1000;
  auto hosts = expand_hosts(text, most);
  if (!hosts) return;
  check(!hosts->empty() && hosts->size() <= most);
}

// Each host is listed once, none could be an option for a remote shell, and the list parses back to itself.
void host_file(const std::string& text) {
  auto hosts = parse_host_file(text, "f");
  if (!hosts) {
    check(hosts.error().message().find('\n') == std::string::npos);
    return;
  }
  check(!hosts->empty());
  std::set<std::string> names;
  std::string again;
  for (const HostEntry& host : *hosts) {
    check(names.insert(host.name).second && !host.name.empty() && host.name.front() != '-');
    check(host.name.find_first_of(" \t\n'\"$`;&|<>()/") == std::string::npos);
    check(!bare_host(host.name).empty() && bare_host(host.name).front() != '-');
    again += host.name + (host.slots > 0 ? " slots=" + std::to_string(host.slots) : "") + "\n";
  }
  auto back = parse_host_file(again, "f");
  check(back && *back == *hosts);
}

void cpu_list(const std::string& text) {
  auto cpus = parse_cpu_list(text);
  if (!cpus) return;
  check(std::is_sorted(cpus->begin(), cpus->end()));
  check(*parse_cpu_list(to_list(*cpus)) == *cpus);
}

// Keys and values become options.
void config(const std::string& text) {
  auto settings = settings_from_json(text, "f");
  if (!settings) {
    check(settings.error().kind == ErrorKind::invalid);
    return;
  }
  if (auto options = options_from_settings(*settings); !options)
    check(options.error().kind == ErrorKind::invalid);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
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
  return 0;
}
