#include "launcher/options/failure_flags.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace dlaunch::launcher {
namespace {

constexpr Duration usual_hang_note = std::chrono::seconds(60);
constexpr std::chrono::seconds longest_health_check(25);  // the other nodes wait for it
// Without signals that no process can handle, that report a broken program, or that dlaunch itself needs
// (SIGCHLD, SIGPIPE, the terminal's).
constexpr std::array may_be_handled{SIGTERM, SIGINT,  SIGHUP,    SIGQUIT, SIGUSR1,  SIGUSR2, SIGALRM, SIGXCPU,
                                    SIGPWR,  SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGCONT, SIGIO,   SIGURG};

std::vector<std::string> names_of_signals() {
  std::vector<std::string> names;
  names.reserve(may_be_handled.size());
  for (const int signo : may_be_handled) names.push_back(std::string("SIG") + sigabbrev_np(signo));
  return names;
}

Error not_to_be_caught(const std::string& from, const std::string& name) {
  return usage(from + ": " + name + " cannot be caught or passed on", "",
               "name another signal, such as SIGTERM");
}

// "SIGTERM", or "TERM" as kill(1) and Slurm write it.
Result<int> signal_named(const std::string& from, const std::string& name) {
  static const std::vector<std::string> names = names_of_signals();
  const std::string full = name.starts_with("SIG") ? name : "SIG" + name;
  if (full == "SIGKILL" || full == "SIGSTOP") return not_to_be_caught(from, full);
  auto known = choice(from, full, names);
  if (!known) return std::move(known).error();
  const auto at = std::find(names.begin(), names.end(), *known) - names.begin();
  return may_be_handled[static_cast<std::size_t>(at)];
}

// As in torchrun, an unusable signal is only a warning.
void parse_signals(SettingsReader& in, Options& out) {
  const Setting* setting = in.given("signals-to-handle");
  if (!setting) return;
  out.node.stop_signals.clear();
  for (const std::string& name : comma_list(setting->value)) {
    if (auto signo = signal_named(setting->from, name)) {
      out.node.stop_signals.push_back(*signo);
    } else {
      out.warnings.push_back(signo.error().message() + "; it is ignored");
    }
  }
}

// "30", or "30,INT@5": after SIGINT another time than after other signals.
void parse_stop_timeout(SettingsReader& in, agent::StopGrace& grace) {
  const Setting* setting = in.given("stop-timeout");
  if (!setting) return;
  grace.after.clear();
  bool usual_given = false;
  for (const std::string& item : comma_list(setting->value)) {
    const auto at_sign = item.find('@');
    const auto time =
        in.keep(seconds(setting->from, at_sign == std::string::npos ? item : item.substr(at_sign + 1)));
    if (!time) return;
    if (at_sign == std::string::npos) {
      if (std::exchange(usual_given, true))
        in.fail(usage(as_given(*setting) + " has two times for all signals", "", "write 30,INT@5"));
      grace.usual = *time;
    } else if (const auto signo = in.keep(signal_named(setting->from, item.substr(0, at_sign)))) {
      grace.after[*signo] = *time;
    }
  }
}

// "SIGUSR1", or "SIGUSR1@60".
void parse_preempt_signal(SettingsReader& in, Options& out) {
  out.node.preempt_ok = in.on("preempt-ok");
  const Setting* setting = in.given("preempt-signal");
  if (!setting) return;
  const auto at_sign = setting->value.find('@');
  const auto signo = in.keep(signal_named(setting->from, setting->value.substr(0, at_sign)));
  if (!signo) return;
  out.node.preempt_signal = *signo;
  if (at_sign == std::string::npos) return;
  if (auto notice = in.keep(seconds(setting->from, setting->value.substr(at_sign + 1))))
    out.node.preempt_notice = *notice;
}

// "3@3600": three within an hour.
void parse_restart_limit(SettingsReader& in, agent::RestartPolicy& policy) {
  const Setting* setting = in.given("restart-limit");
  if (!setting) return;
  const auto at_sign = setting->value.find('@');
  if (at_sign == std::string::npos) {
    in.fail(
        usage(as_given(*setting) + " is not N@S", "", "write 3@3600 for at most 3 restarts within an hour"));
    return;
  }
  const auto count =
      in.keep(number(setting->from, setting->value.substr(0, at_sign), 1, agent::Outcome::max_restarts));
  const auto window = in.keep(seconds(setting->from, setting->value.substr(at_sign + 1)));
  if (count) policy.burst = *count;
  if (window) policy.window = *window;
}

// "1:60": one second, doubled up to a minute.
void parse_restart_backoff(SettingsReader& in, agent::RestartPolicy& policy) {
  const Setting* setting = in.given("restart-backoff");
  if (!setting) return;
  const auto colon = setting->value.find(':');
  if (const auto first = in.keep(seconds(setting->from, setting->value.substr(0, colon))))
    policy.first_delay = *first;
  if (colon != std::string::npos) {
    if (const auto most = in.keep(seconds(setting->from, setting->value.substr(colon + 1))))
      policy.longest_delay = *most;
  }
  policy.longest_delay = std::max(policy.longest_delay, policy.first_delay);
}

void parse_restart_policy(SettingsReader& in, agent::RestartPolicy& policy) {
  parse_restart_limit(in, policy);
  parse_restart_backoff(in, policy);
  if (const auto n = in.integer("exclude-after", 0, agent::Outcome::max_restarts)) policy.exclude_after = *n;
  if (const auto grace = in.duration("startup-grace")) policy.startup_grace = *grace;
  const Setting* codes = in.given("no-restart-on");
  if (!codes) return;
  for (const std::string& text : comma_list(codes->value)) {
    if (const auto code = in.keep(number(codes->from, text, 1, 255))) policy.final_codes.push_back(*code);
  }
}

}  // namespace

void parse_failure_flags(SettingsReader& in, Options& out) {
  if (const auto n = in.integer("max-restarts", 0, 1'000'000)) out.job.max_restarts = *n;
  out.job.counts_membership = in.on("count-membership-changes");
  parse_restart_policy(in, out.job.policy);
  out.node.health_check = in.text("health-check").value_or("");
  if (const auto limit = in.positive_duration("health-check-timeout", longest_health_check))
    out.node.health_timeout = *limit;
  if (const auto limit = in.duration("hang-timeout")) out.job.hang_timeout = *limit;
  out.job.hang_note = in.duration("hang-note").value_or(usual_hang_note);
  parse_stop_timeout(in, out.job.stop_timeout);
  in.positive_duration("monitor-interval");  // only checked: dlaunch does not poll
  parse_signals(in, out);
  parse_preempt_signal(in, out);
}

}  // namespace dlaunch::launcher
