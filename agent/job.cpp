#include "agent/job.h"

namespace dlaunch::agent {
namespace {

std::string place(const Failure& f) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (f.rank >= 0) add("local rank " + std::to_string(f.local_rank));
  if (f.node_rank >= 0) add("node " + std::to_string(f.node_rank));
  if (!f.host.empty()) add("host " + f.host);
  if (f.pid > 0) add("pid " + std::to_string(f.pid));
  return text.empty() ? "" : " (" + text + ")";
}

}  // namespace

std::string describe(const Failure& f) {
  switch (f.kind) {
    case FailureKind::worker:
      return "rank " + std::to_string(f.rank) + place(f) + " " + describe(f.status) +
             (f.error.empty() ? "" : ": " + f.error);
    case FailureKind::spawn:
      return "rank " + std::to_string(f.rank) + place(f) + " could not be started: " + f.why;
    case FailureKind::node_lost:
      return "node " + std::to_string(f.node_rank) + " (host " + f.host + ") was lost: " + f.why;
    case FailureKind::signal:
      return "node " + std::to_string(f.node_rank) + " (host " + f.host + ") was told to stop by " +
             signal_name(f.status.number);
    case FailureKind::unkillable:
      return "node " + std::to_string(f.node_rank) + " (host " + f.host +
             ") cannot get rid of its workers: " + f.why;
    case FailureKind::join:
    case FailureKind::agent:
      return f.why;
  }
  return f.why;
}

int exit_code_of(const Failure& f) {
  switch (f.kind) {
    case FailureKind::worker:
      return f.status.shell_code();
    case FailureKind::signal:
      return 128 + f.status.number;
    case FailureKind::spawn:
    case FailureKind::node_lost:
    case FailureKind::join:
    case FailureKind::unkillable:
    case FailureKind::agent:
      return 1;
  }
  return 1;
}

}  // namespace dlaunch::agent
