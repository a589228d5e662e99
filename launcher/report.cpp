#include "launcher/report.h"

#include <csignal>

namespace dlaunch::launcher {
namespace {

using agent::ExitStatus;
using agent::FailureKind;

std::string restarts(const agent::JobSpec& job, const agent::Outcome& outcome) {
  if (job.max_restarts == 0) return "no restarts were allowed (--max-restarts)";
  return std::to_string(outcome.restarts_used) + " of " + std::to_string(job.max_restarts) + " restarts were used";
}

std::string indented(const std::string& text) {
  std::string out = "  | ";
  for (char c : text) {
    out.push_back(c);
    if (c == '\n') out += "  | ";
  }
  return out;
}

}  // namespace

std::string end_report(const agent::JobSpec& job, const agent::Outcome& outcome) {
  if (!outcome.failed) return "";
  const agent::Failure& cause = outcome.cause;
  if (cause.kind == FailureKind::signal) return "stopped: " + describe(cause);

  std::string text;
  if (!cause.tail.empty()) {
    text = "the last lines that rank " + std::to_string(cause.rank) + " wrote to stderr:\n" + indented(cause.tail) + "\n";
  }
  text += "failed: " + describe(cause);
  if (cause.kind == FailureKind::worker || cause.kind == FailureKind::spawn || cause.kind == FailureKind::node_lost) {
    text += "; " + restarts(job, outcome);
  }
  return text;
}

}  // namespace dlaunch::launcher
