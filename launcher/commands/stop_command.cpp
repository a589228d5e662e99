#include "launcher/commands/stop_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "launcher/commands/command_parser.h"
#include "launcher/commands/job_list.h"
#include "launcher/commands/process_handle.h"
#include "launcher/console/command_io.h"
#include "launcher/flags/value_parsers.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::launcher {
namespace {

int stop(const agent::JobStatus& job, bool now, Duration patience) {
  // Other nodes of an elastic job may go on.
  const std::string agent = "agent " + std::to_string(job.agent);
  const std::string name =
      job.nnodes > 1 ? agent + " of job '" + job.job + "'" : "job '" + job.job + "' (" + agent + ")";
  const ProcessHandle process(job.agent);
  if (!process.found()) return print(name + " has already ended\n");
  // The second signal means: do not wait for the workers.
  for (const int signo : now ? std::vector{SIGTERM, SIGINT} : std::vector{SIGTERM}) {
    if (!process.signal(signo)) return fail("cannot signal " + name + ": " + std::strerror(errno));
  }
  if (!process.ended_within(patience)) {
    return fail(name + " has not ended within " + to_words(patience) +
                "; its workers may use their whole --stop-timeout: wait longer with --timeout, or use --now");
  }
  return print(name + " has ended\n");
}

// Several agents of one job may run here; they have the same endpoint.
bool is_one_job(const std::vector<agent::JobStatus>& jobs) {
  return std::all_of(jobs.begin(), jobs.end(),
                     [&](const agent::JobStatus& job) { return job.endpoint == jobs.front().endpoint; });
}

Error which_one(const std::vector<agent::JobStatus>& jobs, const std::string& name) {
  std::vector<std::string> each;
  each.reserve(jobs.size());
  for (const agent::JobStatus& job : jobs) {
    const std::string user =
        job.user == jobs.front().user && job.user == geteuid() ? "" : " of user " + std::to_string(job.user);
    each.push_back(std::to_string(job.agent) + user + " (" + sanitize_for_terminal(job.program) + ")");
  }
  return mistake("several jobs have the id '" + name + "': agents " + join(each, ", "),
                 "name one by its agent's pid, or stop all of them with --all");
}

}  // namespace

int run_stop(const std::vector<std::string>& arguments) {
  bool all = false;
  bool now = false;
  std::string timeout = "60";
  CommandParser line(
      "dlaunch stop",
      "dlaunch stop sends SIGTERM to a job's agent on this machine (the exit code is 143; --preempt-signal "
      "gives\nits notice), and waits until the job has ended. JOB is its id, or an agent's pid.\n\n"
      "Usage: dlaunch stop [options] JOB");
  line.flag("--all", "if several jobs have this id, stop all of them", all);
  line.flag("--now", "kill the workers without waiting for them", now);
  line.option("--timeout", "S", "wait at most this long for the end [60]", timeout);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  const auto& words = std::get<CommandParser::Words>(*parsed);
  if (words.size() != 1) return fail(mistake("stop takes one job", "dlaunch status lists the jobs"));
  auto patience = seconds("--timeout", timeout);
  if (!patience) return fail(patience.error());

  const auto found = find_jobs(words[0]);
  if (!found) return fail(found.error());
  // Several users may use the same job id. If root has a job of this id, root means that one.
  const JobList list = prefer_jobs_of(geteuid(), *found);
  if (!all && !is_one_job(list.jobs)) return fail(which_one(list.jobs, words[0]));
  int code = 0;
  for (const agent::JobStatus& job : list.jobs) code = std::max(code, stop(job, now, *patience));
  for (const std::int64_t pid : list.silent) {
    code = fail("agent " + std::to_string(pid) +
                " does not answer: it may be suspended; continue it with kill -CONT, or kill it");
  }
  return code;
}

}  // namespace dlaunch::launcher
