#include "launcher/node/final_report.h"

#include <unistd.h>

#include <cstdint>
#include <vector>

#include "agent/model/error_file.h"
#include "agent/observe/postmortem.h"
#include "agent/output/log_dir.h"
#include "launcher/remote/remote_protocol.h"
#include "launcher/report/report_file.h"
#include "store/base/log.h"
#include "store/base/small_file.h"

namespace dlaunch::launcher {

bool failed_here(const JobReport& report) {
  const agent::Failure& cause = report.outcome.cause;
  return report.outcome.failed && cause.kind == agent::FailureKind::worker &&
         cause.node_rank == report.node.node_rank;
}

std::optional<std::string> error_text_of_cause(const JobReport& report) {
  const agent::Failure& cause = report.outcome.cause;
  if (!failed_here(report) || report.node.scratch_dir.empty()) return std::nullopt;
  const std::string path = agent::error_file_path(report.node.scratch_dir, cause.round,
                                                  static_cast<std::uint32_t>(cause.local_rank));
  const auto file = read_plain_file(path, agent::longest_error_file);
  return file ? agent::with_error_code(file->text, report.outcome.exit_code) : std::nullopt;
}

std::string error_file_of_cause(const JobReport& report, const std::optional<std::string>& error_text,
                                const std::string& passed_on) {
  if (!failed_here(report)) return "";
  const agent::Failure& cause = report.outcome.cause;
  std::string kept =
      agent::worker_log_dir(report.log_dir, cause.round, static_cast<std::uint32_t>(cause.local_rank));
  kept.append("/").append(agent::kept_error_file);
  if (!report.log_dir.empty() && access(kept.c_str(), F_OK) == 0) return kept;
  return error_text ? passed_on : "";
}

void report_end(const JobReport& report, const Options& options, agent::Output& output, bool again) {
  using Kind = AgentMessage::Kind;
  const auto send = [&](Kind kind, const std::string& text) {
    output.write_own(to_line(options.lifeline->key, {kind, text}));
  };
  std::vector<std::string> paragraphs = end_report(report);
  if (again && !paragraphs.empty()) paragraphs.erase(paragraphs.begin(), paragraphs.end() - 1);
  for (const std::string& paragraph : paragraphs) {
    if (options.lifeline) {
      send(Kind::report, paragraph);
    } else {
      log::error(paragraph);
    }
  }
  if (!options.lifeline) return;
  if (!options.report.empty()) send(Kind::json, report_json(report));
  send(Kind::end, std::to_string(report.outcome.exit_code));
}

void write_reports(const JobReport& report, const std::optional<std::string>& error_text,
                   const Options& options, const EnvironmentMap& environment) {
  if (!options.report.empty() && !options.lifeline) {
    const auto written = write_whole(options.report, report_json(report));
    if (!written) log::warning(written.error().message());
  }
  const auto own = environment.find("TORCHELASTIC_ERROR_FILE");
  if (!report.outcome.failed || own == environment.end() || own->second.empty()) return;
  const agent::Failure& cause = report.outcome.cause;
  const std::int64_t when_ms = cause.unix_ms > 0 ? cause.unix_ms : report.ended_unix_ms;
  const std::string& words = cause.traceback.empty() ? cause.tail : cause.traceback;
  const agent::ErrorFile file{describe(cause), words, when_ms / 1000};
  const auto written =
      write_whole(own->second, error_text.value_or(agent::to_error_file(file, report.outcome.exit_code)));
  if (!written) log::warning(written.error().message());
}

}  // namespace dlaunch::launcher
