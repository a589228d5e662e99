#include "launcher/commands/trace_command.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <variant>

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

// A file that `dlaunch dump --json` wrote, or a job on this machine.
Result<TracedNode> read_source(const std::string& word) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(word, unknown)) {
    auto job = find_one_job(word);
    if (!job) return std::move(job).error();
    return operations_in(to_json(read_records(std::move(*job))), "job " + word);
  }
  const auto file = read_plain_file(word, most_bytes);
  if (!file) return Error{ErrorKind::io, "cannot read " + word, "", "", ""};
  return operations_in(file->text, word);
}

Error other_job(const std::string& first, const std::string& job, const std::string& word,
                const std::string& other) {
  return {ErrorKind::invalid, first + " is of job " + job + ", but " + word + " of job " + other, "", "", ""};
}

Result<std::vector<TracedOperation>> read_sources(const std::vector<std::string>& words) {
  std::string job;
  std::vector<TracedOperation> operations;
  for (const std::string& word : words) {
    auto node = read_source(word);
    if (!node) return std::move(node).error();
    if (word != words.front() && node->job != job) return other_job(words.front(), job, word, node->job);
    job = std::move(node->job);
    std::ranges::move(node->operations, std::back_inserter(operations));
  }
  if (operations.empty())
    return Error{ErrorKind::not_found, "no rank has recorded anything: the program does not use libdlaunch",
                 "", "", ""};
  return operations;
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
      "--json=FILE` on another\nhost of the job, or earlier.\n\nUsage: dlaunch trace [options] JOB|FILE ...");
  line.option("--output", "FILE", "write the trace to this file (default, or -: standard output)", output);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  const auto& words = std::get<CommandParser::Words>(*parsed);
  if (words.empty())
    return fail(
        mistake("trace takes a job, or files of dlaunch dump --json", "dlaunch status lists the jobs"));

  auto operations = read_sources(words);
  if (!operations) return fail(operations.error());
  const std::size_t count = operations->size();
  const std::string trace = to_trace(std::move(*operations));
  if (output.empty() || output == "-") return print(trace);
  const auto written = write_whole(output, trace);
  if (!written) return fail(written.error());
  return print(output + " has " + std::to_string(count) + (count == 1 ? " operation" : " operations") +
               "; open it in Perfetto (ui.perfetto.dev) or chrome://tracing\n");
}

}  // namespace dlaunch::launcher
