#include "launcher/report.h"

namespace dlaunch::launcher {
namespace {

using agent::FailureKind;

std::string restarts(const agent::JobSpec& job, const agent::Outcome& outcome) {
  if (job.max_restarts == 0) return "no restarts were allowed (--max-restarts)";
  return std::to_string(outcome.restarts_used) + " of " + std::to_string(job.max_restarts) +
         " restarts were used";
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

std::vector<std::string> end_report(const agent::JobSpec& job, const agent::Outcome& outcome) {
  if (!outcome.failed) return {};
  const agent::Failure& cause = outcome.cause;
  if (cause.kind == FailureKind::signal) return {"stopped: " + describe(cause)};

  std::vector<std::string> paragraphs;
  if (!cause.tail.empty()) {
    paragraphs.push_back("the last lines that rank " + std::to_string(cause.rank) + " wrote to stderr:\n" +
                         indented(cause.tail));
  }
  if (!outcome.others.empty()) {
    std::string others = "after that also failed:";
    for (const agent::Failure& other : outcome.others) others += "\n  " + describe(other);
    if (outcome.more > 0) others += "\n  and " + std::to_string(outcome.more) + " more";
    paragraphs.push_back(others);
  }
  std::string line = "failed: " + describe(cause);
  if (cause.kind == FailureKind::worker || cause.kind == FailureKind::spawn ||
      cause.kind == FailureKind::node_lost) {
    line += "; " + restarts(job, outcome);
  }
  paragraphs.push_back(line);
  return paragraphs;
}

}  // namespace dlaunch::launcher
