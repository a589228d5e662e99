#include "launcher/commands/job_records.h"

#include <utility>

#include "agent/observe/worker_pages.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

WorkerDump read_worker(const agent::JobStatus& job, const agent::WorkerStatus& status) {
  WorkerDump worker{status, status.pid, std::nullopt, {}, "", "", ""};
  if (!job.pages_dir.empty()) {
    worker.seen = agent::read_worker_page(agent::worker_page_path(
        job.pages_dir, static_cast<std::uint32_t>(job.round), static_cast<std::uint32_t>(status.local_rank)));
  }
  // The worker may be a shell that waits for the recording process.
  if (worker.seen && worker.seen->condition != agent::Condition::ended) worker.pid = worker.seen->record.pid;
  return worker;
}

}  // namespace

JobDump read_records(agent::JobStatus job) {
  JobDump dump{std::move(job), {}, steady_now(), {}};
  for (const agent::WorkerStatus& status : dump.job.workers)
    dump.workers.push_back(read_worker(dump.job, status));
  return dump;
}

JobDump read_kept_records(agent::JobStatus round) {
  JobDump dump = read_records(std::move(round));
  dump.now = TimePoint(Duration(dump.job.steady_ns));
  for (WorkerDump& worker : dump.workers) {
    // Another process may have its pid now.
    worker.pid = worker.status.pid;
    if (worker.seen) worker.seen->condition = agent::Condition::ended;
  }
  return dump;
}

}  // namespace dlaunch::launcher
