#include "launcher/commands/job_table.h"

#include <algorithm>

#include "store/base/sanitize.h"
#include "store/base/time.h"

namespace dlaunch::launcher {
namespace {

std::string describe(double seconds) {
  return to_words(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

std::string counted(std::int64_t some, std::int64_t all) {
  return std::to_string(some) + " of " + std::to_string(all);
}

std::vector<std::string> row_of(const agent::JobStatus& job) {
  const std::size_t running =
      static_cast<std::size_t>(std::count_if(job.workers.begin(), job.workers.end(), [](const auto& w) {
        return w.state == "running" || w.state == "stopped";
      }));
  return {sanitize_for_terminal(job.job),
          job.node_rank < 0 ? "- of " + std::to_string(job.nnodes) : counted(job.node_rank, job.nnodes),
          sanitize_for_terminal(job.state),
          std::to_string(running),
          std::to_string(job.world_size),
          counted(job.restarts_used, job.max_restarts),
          describe(job.state_age_s),
          std::to_string(job.agent),
          sanitize_for_terminal(job.program)};
}

}  // namespace

std::string columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string job_table(const std::vector<agent::JobStatus>& jobs) {
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "NODE", "STATE", "HERE", "WORLD", "RESTARTS", "SINCE", "AGENT", "PROGRAM"}};
  for (const agent::JobStatus& job : jobs) rows.push_back(row_of(job));
  const std::string table = columns(rows);
  // Notes go below the line of their job. They must not widen the columns.
  std::string text;
  std::size_t at = table.find('\n') + 1;
  text.append(table, 0, at);
  for (const agent::JobStatus& job : jobs) {
    const std::size_t end = table.find('\n', at) + 1;
    text.append(table, at, end - at);
    at = end;
    if (!job.waiting_for.empty())
      text += "  has waited for " + sanitize_for_terminal(job.waiting_for) + " for " +
              describe(job.state_age_s) + "\n";
    if (!job.last_failure.empty()) text += "  last event: " + sanitize_for_terminal(job.last_failure) + "\n";
  }
  return text;
}

std::string worker_table(const agent::JobStatus& job) {
  std::vector<std::vector<std::string>> rows = {{"  RANK", "LOCAL", "PID", "STATE"}};
  const bool has_late = std::ranges::any_of(job.workers, &agent::WorkerStatus::came_last);
  if (has_late) rows.front().insert(rows.front().end(), {"CAME LAST", "LATE"});
  for (const agent::WorkerStatus& worker : job.workers) {
    rows.push_back({"  " + std::to_string(worker.rank), std::to_string(worker.local_rank),
                    worker.pid > 0 ? std::to_string(worker.pid) : "-", sanitize_for_terminal(worker.state)});
    if (has_late)
      rows.back().insert(rows.back().end(), {std::to_string(worker.came_last), describe(worker.late_s)});
  }
  return columns(rows);
}

}  // namespace dlaunch::launcher
