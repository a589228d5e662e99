#include "launcher/remote/host_tree.h"

#include <csignal>
#include <utility>

#include "launcher/remote/remote_protocol.h"
#include "store/base/log.h"
#include "store/base/overloaded.h"

namespace dlaunch::launcher {

HostTree::HostTree(const RemotePlan& plan, UvPoller& poller, Owner& owner)
    : plan_(plan),
      owner_(owner),
      here_(poller, *this),
      agents_(plan.hosts.size()),
      relays_(plan.hosts.size()) {}

HostTree::Process& HostTree::process_of(ProcessNumber process) {
  const int node = node_of(process);
  return is_relay(process) ? relay(node).process : agents_[static_cast<std::size_t>(node)];
}

// --- starting ---

Result<void> HostTree::run(int node, bool directly) {
  const RemoteHost& host = plan_.hosts[static_cast<std::size_t>(node)];
  const int via = directly ? no_node : host.starter;
  const auto agent = static_cast<ProcessNumber>(node);
  if (host.relay_script.empty()) return start(agent, via, host.command, plan_.secret_line + host.script);
  relay(node) = {};
  if (auto started = start(relay_number(node), via, host.command, host.relay_script); !started)
    return started;
  return start(agent, node, {host.command.back()}, plan_.secret_line + host.script);
}

Result<void> HostTree::start(ProcessNumber process, int via, const std::vector<std::string>& command,
                             std::string_view input) {
  if (via == no_node) {
    if (auto started = here_.run(process, command); !started) return started;
  } else {
    const std::string& name = plan_.hosts[static_cast<std::size_t>(via)].name;
    if (!relay(via).process.is_there)
      return Error{ErrorKind::io, "cannot run " + command.front() + " on host " + name, "", "it is gone", ""};
    tell(via, RunProcess{process, command});
  }
  process_of(process) = {true, via};
  send_to(process, input);
  return {};
}

// --- to the processes ---

void HostTree::tell(int relay_node, const RelayMessage& message) {
  Relay& to = relay(relay_node);
  if (!to.process.is_there) return;
  if (to.is_up) return send_to(relay_number(relay_node), encode(message));
  to.unsent += encode(message);
}

void HostTree::send_to(ProcessNumber process, std::string_view bytes) {
  const Process& target = process_of(process);
  if (!target.is_there) return;
  if (target.via == no_node) return here_.send(process, bytes);
  tell(target.via, ProcessInput{process, std::string(bytes)});
}

void HostTree::send(int node, std::string_view bytes) { send_to(static_cast<ProcessNumber>(node), bytes); }

void HostTree::end_input(int node) {
  const auto agent = static_cast<ProcessNumber>(node);
  const Process& target = process_of(agent);
  if (!target.is_there) return;
  if (target.via == no_node) return here_.end_input(agent);
  tell(target.via, EndInput{agent});
}

void HostTree::signal(int node, int signo) {
  const auto agent = static_cast<ProcessNumber>(node);
  const Process& target = process_of(agent);
  if (!target.is_there) return;
  if (target.via == no_node) return here_.signal(agent, signo);
  tell(target.via, SignalProcess{agent, signo});
  if (signo == SIGKILL) kill_way_to(target.via);
}

// The process on this machine through which the relay is reached.
void HostTree::kill_way_to(int relay_node) {
  while (relay(relay_node).process.via != no_node) relay_node = relay(relay_node).process.via;
  here_.signal(relay_number(relay_node), SIGKILL);
}

void HostTree::pause(int node, Stream stream, bool paused) {
  const auto agent = static_cast<ProcessNumber>(node);
  const Process& target = process_of(agent);
  if (!target.is_there) return;
  if (target.via == no_node) return here_.pause(agent, stream, paused);
  tell(target.via, PauseOutput{agent, stream, paused});
}

void HostTree::keep_relays() {
  for (std::size_t node = 0; node < relays_.size(); ++node) {
    if (relays_[node].process.is_there) tell(static_cast<int>(node), KeepAlive{});
  }
}

// --- from the processes ---

void HostTree::on_output(ProcessNumber process, Stream stream, std::string_view bytes) {
  const int node = node_of(process);
  if (!is_relay(process)) return owner_.on_output(node, stream, bytes);
  if (stream == Stream::err) return owner_.on_connection_words(node, bytes);
  take_from_relay(node, bytes);
}

void HostTree::take_from_relay(int node, std::string_view bytes) {
  Relay& from = relay(node);
  if (!from.is_up) {
    // Before its first line a login shell may write anything.
    constexpr std::size_t most_noise = 64U * 1024;
    from.head.append(bytes);
    const FoundGreeting greeting = find_relay_greeting(from.head, plan_.key);
    if (greeting.is_of_another_version) return give_up_relay(node, "it has another version of dlaunch");
    if (greeting.end == 0) {
      if (from.head.size() > most_noise) from.head.erase(0, from.head.size() - most_noise / 2);
      return;
    }
    from.is_up = true;
    from.reader.append(std::string_view(from.head).substr(greeting.end));
    from.head.clear();
    send_to(relay_number(node), std::exchange(from.unsent, {}));
  } else {
    from.reader.append(bytes);
  }
  while (from.process.is_there) {
    auto message = from.reader.next();
    if (!message) return give_up_relay(node, message.error().message());
    if (!*message) return;
    take(node, **message);
  }
}

void HostTree::give_up_relay(int node, const std::string& why) {
  log::warning("host " + plan_.hosts[static_cast<std::size_t>(node)].name +
               ", which starts other hosts, is given up: " + why);
  kill_way_to(node);
}

void HostTree::take(int relay_node, const RelayMessage& message) {
  // Only what this relay runs can be meant.
  const auto is_its_own = [&](ProcessNumber process) {
    if (process >= 2 * plan_.hosts.size()) return false;
    const Process& target = process_of(process);
    return target.is_there && target.via == relay_node;
  };
  std::visit(Overloaded{
                 [&](const ProcessOutput& m) {
                   if (is_its_own(m.process)) on_output(m.process, m.stream, m.bytes);
                 },
                 [&](const ProcessGone& m) {
                   if (is_its_own(m.process)) on_gone(m.process, m.wait_status);
                 },
                 [&](const ProcessNotRun& m) {
                   if (is_its_own(m.process)) not_run(m.process, m.why);
                 },
                 [](const auto&) {},
             },
             message);
}

void HostTree::on_gone(ProcessNumber process, int wait_status) {
  const int node = node_of(process);
  if (is_relay(process)) return end_relay(node, wait_status);
  const int via = std::exchange(process_of(process), {}).via;
  owner_.on_gone(node, agent::ExitStatus::from_wait_status(wait_status));
  if (via != no_node) release_relay_if_idle(via);
}

void HostTree::not_run(ProcessNumber process, const std::string& why) {
  const int node = node_of(process);
  if (is_relay(process)) {
    // Its own dlaunch was sent behind it.
    relay(node).process = {};
    process_of(static_cast<ProcessNumber>(node)) = {};
  } else {
    process_of(process) = {};
  }
  owner_.on_not_run(node, why);
}

// Its own host first, then what is behind it.
void HostTree::end_relay(int node, int wait_status) {
  relay(node).process = {};
  const auto agent = static_cast<ProcessNumber>(node);
  if (agents_[agent].is_there && agents_[agent].via == node) on_gone(agent, wait_status);
  for (ProcessNumber process = 0; process < 2 * plan_.hosts.size(); ++process) {
    const Process& target = process_of(process);
    if (target.is_there && target.via == node) on_gone(process, wait_status);
  }
}

// A relay that runs nothing ends.
void HostTree::release_relay_if_idle(int node) {
  const Process own = relay(node).process;
  if (!own.is_there) return;
  for (ProcessNumber process = 0; process < 2 * plan_.hosts.size(); ++process) {
    if (process_of(process).is_there && process_of(process).via == node) return;
  }
  if (own.via == no_node) return here_.end_input(relay_number(node));
  tell(own.via, EndInput{relay_number(node)});
}

}  // namespace dlaunch::launcher
