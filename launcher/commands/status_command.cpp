#include "launcher/commands/status_command.h"

#include "launcher/commands/command_parser.h"
#include "launcher/commands/endpoint_status.h"
#include "launcher/commands/job_list.h"
#include "launcher/commands/job_table.h"
#include "launcher/console/command_io.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/node/secret.h"

namespace dlaunch::launcher {
namespace {

std::string silent_note(const JobList& list) {
  std::string text;
  for (const std::int64_t pid : list.silent) {
    text += "agent " + std::to_string(pid) + " does not answer: it is suspended or very busy\n";
  }
  return text;
}

int show_endpoints(const std::string& list, const std::string& token_file, bool json) {
  constexpr std::uint16_t usual_port = 29400;
  std::vector<Address> endpoints;
  for (const std::string& endpoint : comma_list(list)) {
    auto address = parse_address(endpoint, usual_port);
    if (!address) return fail(address.error());
    endpoints.push_back(std::move(*address));
  }
  const auto secret = read_secret(token_file, take_secret_variable());
  if (!secret) return fail(secret.error());
  const auto view = query_endpoints(endpoints, *secret, std::chrono::seconds(10));
  if (!view) return fail(view.error());
  return print(json ? agent::to_json(*view) : agent::table(*view));
}

}  // namespace

int run_status(const std::vector<std::string>& arguments) {
  bool json = false;
  std::string endpoint;
  std::string token_file;
  CommandParser line(
      "dlaunch status",
      "dlaunch status lists the jobs on this machine: the node's rank, its state and since when, how many "
      "of its\nworkers run here, the number of ranks in the job, and its restarts. With a job's id, or its "
      "agent's pid, it\nalso lists each worker.\n\nUsage: dlaunch status [options] "
      "[JOB]");
  line.flag("--json", "print one JSON object a line", json);
  line.option("--endpoint", "HOST[:PORT],...",
              "show the whole job of the coordinator at this endpoint instead, on any machine", endpoint);
  line.option("--token-file", "FILE", "with --endpoint: the job's secret (or DLAUNCH_TOKEN)", token_file);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  const auto& words = std::get<CommandParser::Words>(*parsed);
  if (!endpoint.empty() && !words.empty())
    return fail(mistake("--endpoint already names the job", "leave JOB out"));
  if (!endpoint.empty()) return show_endpoints(endpoint, token_file, json);
  if (words.size() > 1) return fail(mistake("status takes one job", "see dlaunch status --help"));
  const std::string name = words.empty() ? "" : words[0];

  const auto found = find_jobs(name);
  if (!found) return fail(found.error());
  const JobList& list = *found;
  std::string text;
  if (json) {
    for (const agent::JobStatus& job : list.jobs) text += to_json(job) + "\n";
    return print(text);
  }
  if (list.jobs.empty() && list.silent.empty()) return print("no jobs run on this machine\n");
  if (!list.jobs.empty()) text = job_table(list.jobs);
  for (const agent::JobStatus& job : list.jobs) {
    if (!name.empty()) text += worker_table(job);
  }
  return print(text + silent_note(list));
}

}  // namespace dlaunch::launcher
