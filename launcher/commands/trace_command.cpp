#include "launcher/commands/trace_command.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <variant>

#include "agent/observe/kept_rounds.h"
#include "launcher/commands/command_parser.h"
#include "launcher/commands/job_list.h"
#include "launcher/commands/job_records.h"
#include "launcher/commands/job_trace.h"
#include "launcher/console/command_io.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/report/report_file.h"
#include "store/base/small_file.h"

namespace dlaunch::launcher {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 30U;  // of one dump

using Dumps = std::vector<std::string>;  // each as `dlaunch dump --json` writes it

Result<Dumps> read_kept_dumps(const std::string& directory) {
  auto rounds = agent::kept_rounds(directory);
  if (!rounds) return std::move(rounds).error();
  Dumps dumps;
  for (agent::JobStatus& round : *rounds) dumps.push_back(to_json(read_kept_records(std::move(round))));
  return dumps;
}

// A directory with records, a file that `dlaunch dump --json` wrote, or a job on this machine.
Result<Dumps> read_source(const std::string& word) {
  std::error_code unknown;
  const auto type = std::filesystem::status(word, unknown).type();
  if (type == std::filesystem::file_type::directory) return read_kept_dumps(word);
  if (type != std::filesystem::file_type::regular) {
    auto job = find_one_job(word);
    if (!job) return std::move(job).error();
    return Dumps{to_json(read_records(std::move(*job)))};
  }
  auto file = read_plain_file(std::filesystem::canonical(word, unknown), most_bytes);
  if (!file) return Error{ErrorKind::io, "cannot read " + word, "", "", ""};
  return Dumps{std::move(file->text)};
}

std::size_t count_operations(const std::vector<TracedNode>& nodes) {
  std::size_t count = 0;
  for (const TracedNode& node : nodes) count += node.operations.size();
  return count;
}

Error other_job(const std::string& first, const std::string& job, const std::string& word,
                const std::string& other) {
  return {ErrorKind::invalid, first + " is of job " + job + ", but " + word + " of job " + other, "", "", ""};
}

Result<std::vector<TracedNode>> read_sources(const std::vector<std::string>& words) {
  std::vector<TracedNode> nodes;
  for (const std::string& word : words) {
    const auto dumps = read_source(word);
    if (!dumps) return dumps.error();
    for (const std::string& dump : *dumps) {
      auto node = operations_in(dump, word);
      if (!node) return std::move(node).error();
      if (!nodes.empty() && node->job != nodes.front().job)
        return other_job(words.front(), nodes.front().job, word, node->job);
      nodes.push_back(std::move(*node));
    }
  }
  if (count_operations(nodes) == 0)
    return Error{ErrorKind::not_found, "no rank has recorded anything: the program does not use libdlaunch",
                 "", "", ""};
  return nodes;
}

// How exactly the times of several hosts can be compared; empty: there is one host.
std::string describe_clocks(const std::vector<TracedNode>& nodes) {
  const auto is_first = [&](const TracedNode& node) { return node.host == nodes.front().host; };
  if (std::ranges::all_of(nodes, is_first)) return "";
  if (have_one_clock(nodes))
    return ", all by one clock within " + std::to_string(clock_error(nodes) / 1000 + 1) + " us";
  return ", by each host's own clock: do not compare times of different hosts";
}

}  // namespace

int run_trace(const std::vector<std::string>& arguments) {
  std::string output;
  CommandParser line(
      "dlaunch trace",
      "dlaunch trace writes the latest operations of all ranks as one trace, for Perfetto or "
      "chrome://tracing: "
      "when\neach rank entered and left them, those that have not ended, and arrows from the rank that came "
      "last. JOB is\nthe job's id, or its agent's pid, on this machine; FILE was written by `dlaunch dump "
      "--json=FILE` on another\nhost of the job, or earlier; DIR is the log directory of a job that "
      "failed.\n\n"
      "Usage: dlaunch trace [options] JOB|FILE|DIR ...");
  line.option("--output", "FILE", "write the trace to this file (default, or -: standard output)", output);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  const auto& words = std::get<CommandParser::Words>(*parsed);
  if (words.empty())
    return fail(mistake("trace takes a job, files of dlaunch dump --json, or a log directory",
                        "dlaunch status lists the jobs"));

  auto nodes = read_sources(words);
  if (!nodes) return fail(nodes.error());
  const std::size_t count = count_operations(*nodes);
  const std::string clocks = describe_clocks(*nodes);
  const std::string trace = to_trace(std::move(*nodes));
  if (output.empty() || output == "-") return print(trace);
  const auto written = write_whole(output, trace);
  if (!written) return fail(written.error());
  return print(output + " has " + std::to_string(count) + (count == 1 ? " operation" : " operations") +
               clocks + "; open it in Perfetto (ui.perfetto.dev) or chrome://tracing\n");
}

}  // namespace dlaunch::launcher
