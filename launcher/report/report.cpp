#include "launcher/report/report.h"

#include <algorithm>

#include "agent/model/error_file.h"
#include "agent/model/last_lines.h"
#include "agent/model/root_cause.h"
#include "launcher/report/clock_time.h"
#include "store/base/sanitize.h"

namespace dlaunch::launcher {
namespace {

using agent::Failure;
using agent::FailureKind;
using agent::Outcome;

constexpr std::size_t shown_others = 5;
constexpr std::size_t shown_restarts = 5;
constexpr std::size_t longest_line = 500;
constexpr std::string_view before_remedy = "\n  try: ";

std::string restarts(const JobReport& report) {
  if (report.job.max_restarts == 0) return "not restarted: --max-restarts is 0";
  return std::to_string(report.outcome.restarts_used) + " of " + std::to_string(report.job.max_restarts) +
         " restarts were used";
}

bool restart_may_heal(FailureKind kind) {
  return kind == FailureKind::worker || kind == FailureKind::spawn || kind == FailureKind::node_lost ||
         kind == FailureKind::hang || kind == FailureKind::left;
}

std::vector<std::string> output_of_cause(const Failure& cause, const std::string& error_file, bool is_shown) {
  std::vector<std::string> paragraphs = agent::last_lines_of(cause, is_shown);
  const std::string rank = "rank " + std::to_string(cause.rank);
  const std::string where = cause.host.empty() ? "" : " on host " + sanitize_for_terminal(cause.host);
  if (!cause.log_file.empty())
    paragraphs.push_back("the output of " + rank + " is in " + sanitize_for_terminal(cause.log_file) + where);
  if (!error_file.empty())
    paragraphs.push_back("the error file of " + rank + " is " + sanitize_for_terminal(error_file) + where);
  return paragraphs;
}

std::string distance(Duration after) {
  return after < Duration(0) ? to_words(-after) + " before" : to_words(after) + " later";
}

std::string one_line(const Failure& failure) {
  return shortened(sanitize_for_terminal(describe(failure)), longest_line);
}

std::string line_of_cause(const Failure& cause) {
  return shortened(sanitize_for_terminal(agent::describe_with_error(cause)), longest_line);
}

std::string others(const Outcome& outcome) {
  const int count = outcome.failure_count - 1;
  if (count < 1 || outcome.others.empty()) return "";
  const std::size_t shown = std::min(outcome.others.size(), shown_others);
  std::string text =
      std::to_string(count) + (count == 1 ? " other failure" : " other failures") + " in this round:";
  for (std::size_t i = 0; i < shown; ++i) {
    const Failure& other = outcome.others[i];
    text += "\n  " + distance(other.after) + ": " + one_line(other) +
            (other.while_stopping ? ", while it was being stopped" : "");
  }
  if (static_cast<std::size_t>(count) <= shown) return text;
  text += "\n  and " + std::to_string(count - static_cast<int>(shown)) + " more; in all";
  int listed = 0;
  for (const agent::Tally& tally : outcome.tallies) {
    text +=
        (listed == 0 ? " " : ", ") + std::to_string(tally.count) + " " + sanitize_for_terminal(tally.what);
    listed += tally.count;
  }
  if (listed < count) text += ", " + std::to_string(count - listed) + " others";
  return text;
}

std::string history(const Outcome& outcome) {
  if (outcome.restarts.empty()) return "";
  const std::size_t first =
      outcome.restarts.size() > shown_restarts ? outcome.restarts.size() - shown_restarts : 0;
  std::string text = "earlier restarts:";
  for (std::size_t i = first; i < outcome.restarts.size(); ++i) {
    const agent::Restart& restart = outcome.restarts[i];
    const std::string which = restart.counted ? std::to_string(restart.number) : "not counted";
    text += "\n  " + which + ", after " + to_words(restart.after) + ": " + one_line(restart.cause);
  }
  return text;
}

// For a hang, the first position is the cause itself and is skipped.
std::string collectives(const Outcome& outcome) {
  std::string text;
  for (std::size_t i = outcome.cause.kind == FailureKind::hang ? 1 : 0; i < outcome.rank_positions.size();
       ++i)
    text += "\n  " + shortened(sanitize_for_terminal(outcome.rank_positions[i]), longest_line);
  return text.empty() ? "" : "last known position of the ranks:" + text;
}

// The time is by the clock of the host where it happened, in this host's time zone.
std::string time_of(const Failure& cause, const std::string& before) {
  return cause.unix_ms > 0 ? before + clock_time(cause.unix_ms) : "";
}

std::string headline(const JobReport& report, bool has_time) {
  const Failure& cause = report.outcome.cause;
  std::string line = "failed: " + line_of_cause(cause);
  if (!report.outcome.no_restart.empty()) {
    line += "; not restarted: " + sanitize_for_terminal(report.outcome.no_restart);
  } else if (restart_may_heal(cause.kind)) {
    line += "; " + restarts(report);
  }
  return line + (has_time ? "" : time_of(cause, "; it failed at "));
}

std::string flight_records(const std::string& folder) {
  return "PyTorch's flight records of this node are in " + folder + "; compare them with: torchfrtrace " +
         folder;
}

}  // namespace

std::string kept_error_file(const Failure& failure) {
  if (failure.exception.empty() || failure.log_file.empty()) return "";
  return failure.log_file.substr(0, failure.log_file.rfind('/') + 1).append(agent::kept_error_file);
}

std::vector<std::string> end_report(const JobReport& report) {
  const Outcome& outcome = report.outcome;
  if (!outcome.failed) return {};
  std::vector<std::string> paragraphs;
  if (!report.flight_folder.empty()) paragraphs.push_back(flight_records(report.flight_folder));
  if (outcome.cause.kind == FailureKind::signal) {
    paragraphs.push_back("stopped: " + sanitize_for_terminal(describe(outcome.cause)) +
                         (outcome.exit_code == 0 ? "; all workers here returned 0 (--preempt-ok)" : ""));
    return paragraphs;
  }

  const std::string other_failures = others(outcome);
  const std::string restarted = history(outcome);
  bool has_time = false;
  const bool is_detailed = report.node.node_rank == 0 || report.node.node_rank == outcome.cause.node_rank;
  if (is_detailed) {
    // A long report names the cause first. The last line names it again, with how the job ended.
    if (!other_failures.empty() || !restarted.empty()) {
      paragraphs.push_back("root cause: " + line_of_cause(outcome.cause) + time_of(outcome.cause, ", at "));
      has_time = true;
    }
    const std::string error_file =
        report.error_file.empty() ? kept_error_file(outcome.cause) : report.error_file;
    for (std::string& part : output_of_cause(outcome.cause, error_file, report.shows_last_lines))
      paragraphs.push_back(std::move(part));
    for (const std::string& part : {collectives(outcome), other_failures, restarted}) {
      if (!part.empty()) paragraphs.push_back(part);
    }
  }
  std::string summary = headline(report, has_time);
  // Node 0 cannot report its own loss.
  const bool lost_node_0 = outcome.cause.kind == FailureKind::node_lost && outcome.cause.node_rank == 0;
  if ((is_detailed || lost_node_0) && !outcome.cause.remedy.empty())
    summary.append(before_remedy)
        .append(shortened(sanitize_for_terminal(outcome.cause.remedy), longest_line));
  paragraphs.push_back(std::move(summary));
  return paragraphs;
}

std::string first_line_of(const std::string& summary) { return summary.substr(0, summary.find('\n')); }

std::string remedy_in(const std::string& summary) {
  const std::size_t found = summary.find(before_remedy);
  return found == std::string::npos ? "" : summary.substr(found + before_remedy.size());
}

}  // namespace dlaunch::launcher
