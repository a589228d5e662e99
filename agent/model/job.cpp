#include "agent/model/job.h"

#include <algorithm>

#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t brief_text = 200;

std::string place(const Failure& f) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (f.rank >= 0) add("local rank " + std::to_string(f.local_rank));
  if (f.node_rank >= 0) add("node " + std::to_string(f.node_rank));
  if (!f.host.empty()) add("host " + f.host);
  if (f.pid > 0) add("pid " + std::to_string(f.pid));
  return text.empty() ? "" : " (" + text + ")";
}

// The reason of a hang, with the place of the missing rank behind its first mention.
std::string with_place(const Failure& f) {
  if (f.rank < 0) return f.why;
  const std::string rank = "rank " + std::to_string(f.rank);
  const std::size_t found = (" " + f.why).find(" " + rank + " ");
  if (found == std::string::npos) return f.why + "; " + rank + place(f);
  return std::string(f.why).insert(found + rank.size(), place(f));
}

// A node that has no rank yet is named by its host.
std::string node_name(const Failure& f) {
  return f.node_rank < 0 ? "host " + f.host
                         : "node " + std::to_string(f.node_rank) + " (host " + f.host + ")";
}

}  // namespace

std::string describe(const Failure& f) {
  switch (f.kind) {
    case FailureKind::worker:
      return "rank " + std::to_string(f.rank) + place(f) + " " + describe_end(f) +
             (f.exception.empty() ? "" : ": " + f.exception);
    case FailureKind::spawn:
      return "rank " + std::to_string(f.rank) + place(f) + " " + describe_end(f) + ": " + f.why;
    case FailureKind::node_lost:
      return node_name(f) + " was lost: " + f.why;
    case FailureKind::signal:
      return node_name(f) + " was stopped by " + signal_name(f.status.number);
    case FailureKind::unkillable:
      return node_name(f) + " cannot end its workers: " + f.why;
    case FailureKind::health:
      return node_name(f) + " failed its health check: " + f.why;
    case FailureKind::left:
      return "rank " + std::to_string(f.rank) + place(f) + " " + f.why;
    case FailureKind::hang:
      return with_place(f);
    case FailureKind::join:
    case FailureKind::agent:
      return f.why;
  }
  return f.why;
}

std::string in_short(const Failure& f) {
  if (f.kind != FailureKind::worker && f.kind != FailureKind::spawn) return describe(f);
  std::string text = "rank " + std::to_string(f.rank) + " " + describe_end(f);
  const std::string& more = f.kind == FailureKind::spawn ? f.why : f.exception;
  if (!more.empty()) text += ": " + more;
  if (!f.blamed_for.empty()) text += " (rank " + std::to_string(f.blamed_rank) + " " + f.blamed_for + ")";
  constexpr std::size_t longest = 300;
  return shortened(sanitize_for_terminal(text), longest);
}

std::string describe(const StopGrace& grace, const std::string& whom) {
  const int signo = grace.sent_for(SIGTERM);
  if (signo == SIGKILL) return "killing " + whom + " (--stop-timeout=0)";
  return "stopping " + whom + ": " + signal_name(signo) + ", at most " + to_words(grace.of(signo));
}

std::string describe_end(const Failure& f) {
  switch (f.kind) {
    case FailureKind::worker:
      if (f.ended_by_us) return "had failed, and was stopped before it had exited";
      return describe(f.status, f.hint);
    case FailureKind::spawn:
      return "could not be started";
    case FailureKind::node_lost:
      return "was lost";
    case FailureKind::signal:
      return "was stopped";
    case FailureKind::unkillable:
      return "could not be killed";
    case FailureKind::health:
      return "failed its health check";
    case FailureKind::left:
      return "left the group";
    case FailureKind::hang:
      return "kept the others waiting";
    case FailureKind::join:
    case FailureKind::agent:
      return "dlaunch failed";
  }
  return f.why;
}

Failure brief(Failure f) {
  f.tail.clear();
  f.tail_is_of_stdout = false;
  f.traceback.clear();
  f.remedy.clear();
  for (std::string* text : {&f.why, &f.exception, &f.hint, &f.blamed_for})
    *text = shortened(*text, brief_text);
  return f;
}

int exit_code_of(const Failure& f) {
  switch (f.kind) {
    case FailureKind::worker:
      // Without our signal it would have ended like a program with an uncaught exception.
      return f.ended_by_us ? 1 : f.status.shell_code();
    case FailureKind::left:
      return std::max(1, f.status.shell_code());  // the code of the worker that noticed it
    case FailureKind::signal:
      return 128 + f.status.number;
    case FailureKind::spawn:
    case FailureKind::node_lost:
    case FailureKind::join:
    case FailureKind::unkillable:
    case FailureKind::health:
    case FailureKind::hang:
    case FailureKind::agent:
      return 1;
  }
  return 1;
}

void place_worker(Failure& failure, const World& world) {
  for (const WorldMember& member : world.members) {
    const int local_rank = failure.rank - member.base_rank;
    if (local_rank < 0 || local_rank >= member.slots) continue;
    failure.local_rank = local_rank;
    failure.node_rank = member.node_rank;
    failure.host = member.host;
  }
}

}  // namespace dlaunch::agent
