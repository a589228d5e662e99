#include "agent/model/restart_policy.h"

#include <algorithm>
#include <utility>

namespace dlaunch::agent {
namespace {

bool is_final(const RestartPolicy& policy, const Failure& cause) {
  if (cause.kind != FailureKind::worker && cause.kind != FailureKind::left) return false;
  const auto& codes = policy.final_codes;
  return std::find(codes.begin(), codes.end(), exit_code_of(cause)) != codes.end();
}

// A job that fails during its startup is likely to fail there again.
bool cannot_start(const RestartPolicy& policy, const Restart& next) {
  const FailureKind kind = next.cause.kind;
  const bool is_the_programs = kind == FailureKind::worker || kind == FailureKind::spawn ||
                               kind == FailureKind::hang || kind == FailureKind::left;
  return is_the_programs && next.after < policy.startup_grace;
}

// The number of counted restarts within the window before this one.
int within_window(Duration window, const std::vector<Restart>& history, const Restart& next) {
  return static_cast<int>(std::count_if(history.begin(), history.end(), [&](const Restart& before) {
    return before.counted && next.after - before.after < window;
  }));
}

// Zero after the first quick failure in a row, then twice as long each time. Losses that do not count form a
// row if they are of the same host.
Duration backoff(const RestartPolicy& policy, const std::vector<Restart>& history, const Restart& next) {
  if (next.lasted >= quick_failure) return {};
  Duration delay{};
  for (auto before = history.rbegin(); before != history.rend(); ++before) {
    const bool alike =
        before->counted == next.counted && (next.counted || before->cause.host == next.cause.host);
    if (!alike || before->lasted >= quick_failure) break;
    delay = std::min(policy.longest_delay, delay == Duration(0) ? policy.first_delay : 2 * delay);
  }
  return delay;
}

}  // namespace

RestartDecision decide_restart(const RestartPolicy& policy, int max_restarts, int used,
                               const std::vector<Restart>& history, const Restart& next) {
  if (!next.counted) return {true, "", backoff(policy, history, next)};
  if (is_final(policy, next.cause))
    return {false, "exit code " + std::to_string(exit_code_of(next.cause)) + " is final (--no-restart-on)"};
  if (used >= max_restarts) return {false};
  if (cannot_start(policy, next)) {
    return {false,
            "it failed within " + to_words(policy.startup_grace) + " of the job's start (--startup-grace)"};
  }
  if (policy.burst > 0 && within_window(policy.window, history, next) >= policy.burst) {
    return {false, "there were " + std::to_string(policy.burst) + " restarts within " +
                       to_words(policy.window) + " (--restart-limit)"};
  }
  return {true, "", backoff(policy, history, next)};
}

int failures_of(const std::string& host, const std::vector<Restart>& history) {
  return static_cast<int>(
      std::count_if(history.begin(), history.end(), [&](const Restart& r) { return r.cause.host == host; }));
}

void remember(std::vector<Restart>& history, Restart entry) {
  if (history.size() == static_cast<std::size_t>(Outcome::max_restarts)) history.erase(history.begin());
  history.push_back(std::move(entry));
}

}  // namespace dlaunch::agent
