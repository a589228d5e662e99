#include "launcher/doctor/probe_process.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <string>

#include "agent/control/messages.h"
#include "launcher/console/command_io.h"
#include "launcher/doctor/link_probe.h"
#include "launcher/doctor/link_text.h"
#include "launcher/doctor/machine_checks.h"
#include "launcher/doctor/probe_server.h"
#include "launcher/machine/port_owner.h"
#include "store/base/hex.h"
#include "store/base/random.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration patience = std::chrono::minutes(2);
constexpr std::size_t longest_order = 4096;
constexpr std::size_t key_bytes = 16;

// The next line of standard input. None: its end, no line in time, or too long a line.
std::optional<std::string> next_order(std::string& buffer) {
  const TimePoint deadline = steady_now() + patience;
  while (buffer.size() < longest_order) {
    if (const std::size_t end = buffer.find('\n'); end != std::string::npos) {
      std::string line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      return line;
    }
    const std::int64_t left = to_millis(deadline - steady_now());
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (left <= 0) return std::nullopt;
    const int ready = poll(&input, 1, static_cast<int>(left));
    if (ready <= 0) continue;
    char piece[512];
    const ssize_t got = read(STDIN_FILENO, piece, sizeof piece);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return std::nullopt;
    buffer.append(piece, static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

int say(const std::string& json) { return print(std::string(probe_mark) + json + "\n"); }

}  // namespace

int run_probe() {
  std::signal(SIGPIPE, SIG_IGN);
  HostFacts facts;
  facts.version = DLAUNCH_VERSION;
  facts.protocol = agent::protocol_version;
  facts.key = to_hex(random_bytes(key_bytes));
  ProbeServer server(facts.key);
  if (auto port = server.listen(usual_port); port) {
    facts.job_port = *port;
  } else {
    facts.why_not = name_port_owner(port.error(), usual_port).message();
  }
  auto data_port = server.listen(0);
  if (!data_port) return fail(data_port.error());
  facts.data_port = *data_port;
  if (auto started = server.start(); !started) return fail(started.error());

  if (const int failed = say(to_json(facts)); failed != 0) return failed;
  std::string buffer;
  while (const auto line = next_order(buffer)) {
    const auto target = probe_target_from(*line);
    if (!target) return fail(target.error());
    if (const int failed = say(to_json(measure_link(*target))); failed != 0) return failed;
  }
  return 0;
}

}  // namespace dlaunch::launcher
