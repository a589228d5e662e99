#include "launcher/commands/dump_command.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "agent/observe/kept_rounds.h"
#include "launcher/commands/command_parser.h"
#include "launcher/commands/endpoint_status.h"
#include "launcher/commands/inspection.h"
#include "launcher/commands/job_dump.h"
#include "launcher/commands/job_list.h"
#include "launcher/commands/job_records.h"
#include "launcher/commands/process_stacks.h"
#include "launcher/console/command_io.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/node/secret.h"
#include "launcher/report/report_file.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration debugger_patience = std::chrono::seconds(20);  // with one worker
constexpr Duration coordinator_patience = std::chrono::seconds(2);
constexpr Duration whole_patience = std::chrono::minutes(2);  // with all

// Empty if the coordinator does not answer, or no node has reported to it.
std::vector<std::string> query_coordinator(const agent::JobStatus& job, const std::string& secret) {
  const auto address = parse_address(job.endpoint, 0);
  if (job.nnodes == 1 || !address || address->port == 0) return {};
  auto view = query_endpoints({*address}, secret, coordinator_patience);
  return view && view->job == job.job ? std::move(view->collectives) : std::vector<std::string>{};
}

// All records first: a debugger is slow.
JobDump read_job(agent::JobStatus job, const std::string& secret, bool stacks) {
  JobDump dump = read_records(std::move(job));
  dump.whole_job = query_coordinator(dump.job, secret);
  if (!stacks) return dump;
  const TimePoint deadline = steady_now() + whole_patience;
  for (WorkerDump& worker : dump.workers) {
    if (worker.pid > 0) worker.threads = threads_of(worker.pid);
  }
  for (WorkerDump& worker : dump.workers) {
    if (worker.threads.empty()) continue;
    auto output = run_debugger(worker.pid, std::min(deadline, steady_now() + debugger_patience));
    worker.debugger = std::move(output.debugger);
    worker.stacks = std::move(output.text);
    worker.advice = std::move(output.advice);
  }
  return dump;
}

// Of the last round that was kept in this directory.
Result<JobDump> read_kept(const std::string& directory) {
  auto rounds = agent::kept_rounds(directory);
  if (!rounds) return std::move(rounds).error();
  const int last = rounds->back().round;
  if (rounds->size() > 1 && rounds->at(rounds->size() - 2).round == last)
    return Error{ErrorKind::invalid, directory + " has the records of several nodes or jobs", "", "",
                 "name one of them: " + rounds->back().pages_dir};
  return read_kept_records(std::move(rounds->back()));
}

// `word`: a job on this machine, or a directory with records.
Result<JobDump> read_source(const std::string& word, const std::string& secret, bool stacks) {
  std::error_code unknown;
  if (std::filesystem::is_directory(word, unknown)) return read_kept(word);
  auto job = find_one_job(word);
  if (!job) return std::move(job).error();
  return read_job(std::move(*job), secret, stacks);
}

int write(const std::string& text, const std::string& file) {
  if (file.empty() || file == "-") return print(text);
  const auto written = write_whole(file, text);
  return written ? 0 : fail(written.error());
}

int write_flight(const JobDump& dump, const std::string& folder) {
  const std::vector<FlightFile> files = flight_files(dump);
  if (files.empty()) return fail("no rank here has recorded anything: the program does not use libdlaunch");
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);  // if this fails, writing reports it
  std::string ranks;
  for (const FlightFile& file : files) {
    const auto written = write_whole(folder + "/" + file.name, file.content);
    if (!written) return fail(written.error());
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(file.rank);
  }
  const bool is_all = static_cast<int>(files.size()) == dump.job.world_size;
  return print(folder + " has the records of " + (files.size() == 1 ? "rank " : "ranks ") + ranks +
               "; analyse them with: torchfrtrace " + folder +
               (is_all ? "" : " (after copying the other nodes' files there)") + "\n");
}

}  // namespace

int run_dump(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "--inspect")
    return run_inspection({arguments.begin() + 1, arguments.end()});
  std::string json_file;
  std::string flight_folder;
  bool no_stacks = false;
  std::string token_file;
  CommandParser line(
      "dlaunch dump",
      "dlaunch dump shows where each worker of a job on this machine is: the collective that it waits in "
      "and the\nranks that are missing (recorded by libdlaunch); its threads (from /proc); and their stacks, "
      "if "
      "gdb or py-spy\nis installed, which pauses the worker for a moment. JOB is the job's id, or its "
      "agent's pid; DIR is\nthe log directory of a job that failed, and shows its last round."
      "\n\nUsage: dlaunch dump [options] JOB|DIR");
  line.option("--json", "FILE",
              "write everything, with the latest operations, to this file as JSON (-: standard output)",
              json_file);
  line.option("--flight", "FOLDER",
              "write the latest collectives to this folder, one file per rank, for PyTorch's torchfrtrace",
              flight_folder);
  line.flag("--no-stacks", "do not read threads, and do not run a debugger", no_stacks);
  line.option("--token-file", "FILE", "the job's secret, to query the coordinator (or DLAUNCH_TOKEN)",
              token_file);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  const auto& words = std::get<CommandParser::Words>(*parsed);
  if (words.size() != 1)
    return fail(mistake("dump takes one job or log directory", "dlaunch status lists the jobs"));

  const auto secret = read_secret(token_file, take_secret_variable());
  if (!secret) return fail(secret.error());
  const bool wants_stacks = !no_stacks && (flight_folder.empty() || !json_file.empty());
  const auto dump = read_source(words[0], *secret, wants_stacks);
  if (!dump) return fail(dump.error());
  const int flown = flight_folder.empty() ? 0 : write_flight(*dump, flight_folder);
  if (flown != 0 || (json_file.empty() && !flight_folder.empty())) return flown;
  return json_file.empty() ? print(to_text(*dump)) : write(to_json(*dump), json_file);
}

}  // namespace dlaunch::launcher
