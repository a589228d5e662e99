#include "launcher/report/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "store/base/text.h"

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;
using agent::Failure;
using agent::FailureKind;

const char* name_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::worker:
      return "worker";
    case FailureKind::spawn:
      return "spawn";
    case FailureKind::node_lost:
      return "node_lost";
    case FailureKind::signal:
      return "signal";
    case FailureKind::join:
      return "join";
    case FailureKind::health:
      return "health";
    case FailureKind::hang:
      return "hang";
    case FailureKind::unkillable:
      return "unkillable";
    case FailureKind::left:
      return "left";
    case FailureKind::agent:
      return "agent";
  }
  return "agent";
}

Json json_of(const DroppedOutput& dropped) {
  Json json = Json::object();
  for (const auto& [name, part] : {std::pair{"stdout", dropped.out}, std::pair{"stderr", dropped.err}}) {
    if (part.bytes > 0) json[name] = {{"lines", part.lines}, {"bytes", part.bytes}};
  }
  return json;
}

// Workers may write any bytes, but JSON must be UTF-8.
std::string to_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

double in_seconds(std::int64_t ms) { return static_cast<double>(ms) / 1000; }

// Fields that are unknown or do not apply are omitted.
Json json_of(const Failure& f) {
  Json json = {{"kind", name_of(f.kind)},
               {"text", describe(f)},
               {"round", f.round},
               {"node_rank", f.node_rank},
               {"host", f.host}};
  if (f.rank >= 0) {
    json["rank"] = f.rank;
    json["local_rank"] = f.local_rank;
    if (f.pid > 0) json["pid"] = f.pid;
  }
  const bool has_status = f.kind == FailureKind::worker || f.kind == FailureKind::signal;
  if (has_status && f.status.how == agent::ExitStatus::How::signaled) {
    json["signal"] = f.status.number;
    json["signal_name"] = agent::signal_name(f.status.number);
  } else if (has_status) {
    json["exit_code"] = f.status.number;
  }
  if (f.unix_ms > 0) json["time"] = in_seconds(f.unix_ms);
  if (f.while_stopping) json["while_stopping"] = true;
  const std::pair<const char*, std::string> texts[] = {{"error", f.exception},
                                                       {"traceback", f.traceback},
                                                       {"hint", f.hint},
                                                       {"try", f.remedy},
                                                       {f.tail_is_of_stdout ? "stdout" : "stderr", f.tail},
                                                       {"log_file", f.log_file},
                                                       {"error_file", kept_error_file(f)}};
  for (const auto& [name, text] : texts) {
    if (!text.empty()) json[name] = text;
  }
  return json;
}

// In seconds; kinds without time are left out.
Json json_of(const agent::TimeSums& sums) {
  Json seconds = Json::object();
  for (std::size_t i = 0; i < agent::time_kinds; ++i) {
    if (sums.parts.at(i) > Duration(0))
      seconds[std::string(agent::time_kind_names.at(i))] = to_seconds(sums.parts.at(i));
  }
  return {{"ranks", sums.ranks},
          {"wall", to_seconds(sums.wall)},
          {"goodput", sums.goodput()},
          {"rank_seconds", std::move(seconds)}};
}

Json json_of(const agent::JobTimes& times) {
  Json json = json_of(times.sums());
  json["restarts"] = Json::array();
  for (const agent::RestartTimes& restart : times.restarts()) {
    json["restarts"].push_back({{"detect", to_seconds(restart.detecting)},
                                {"stop", to_seconds(restart.stopping)},
                                {"decide", to_seconds(restart.deciding)},
                                {"start", to_seconds(restart.starting)},
                                {"first_operation", to_seconds(restart.first)}});
  }
  return json;
}

Error cannot_write(const std::string& path, const std::string& why) {
  return {ErrorKind::io, "cannot write", path, why, "choose another path"};
}

// Follows links: the link stays, and its target is replaced.
std::string target_of(const std::string& path) {
  std::error_code failed;
  const auto target = std::filesystem::canonical(path, failed);
  return failed ? path : target.string();
}

// Creates a new file beside `path`; -1: that failed.
int make_beside(std::string& path) {
  path += ".XXXXXX";
  return mkostemp(path.data(), O_CLOEXEC);
}

bool write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t put = write(fd, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return true;
}

}  // namespace

std::string report_json(const JobReport& report) {
  const agent::Outcome& outcome = report.outcome;
  Json nodes = Json::array();
  for (const agent::WorldMember& node : report.world.members) {
    nodes.push_back({{"node_rank", node.node_rank},
                     {"host", node.host},
                     {"first_rank", node.base_rank},
                     {"workers", node.slots}});
  }
  Json restarts = Json::array();
  for (const agent::Restart& restart : outcome.restarts) {
    restarts.push_back({{"number", restart.number},
                        {"counted", restart.counted},
                        {"after", to_seconds(restart.after)},
                        {"cause", json_of(restart.cause)}});
  }
  Json json = {{"version", 1},
               {"dlaunch", DLAUNCH_VERSION},
               {"job", report.job.id},
               {"program", join(report.node.command, " ")},
               {"nnodes", report.job.nnodes},
               {"node_rank", report.node.node_rank},
               {"host", report.node.host},
               {"exit_code", outcome.exit_code},
               {"failed", outcome.failed},
               {"restarts_used", outcome.restarts_used},
               {"max_restarts", report.job.max_restarts},
               {"began", in_seconds(report.began_unix_ms)},
               {"ended", in_seconds(report.ended_unix_ms)},
               {"world_size", report.world.world_size},
               {"nodes", nodes},
               {"restarts", restarts}};
  if (!report.log_dir.empty()) json["log_dir"] = report.log_dir;
  if (report.times) json["time"] = json_of(*report.times);
  if (report.outcome.times.ranks > 0) json["job_time"] = json_of(report.outcome.times);
  if (const Json dropped = json_of(report.dropped); !dropped.empty()) json["dropped"] = dropped;
  if (outcome.failed) {
    json["cause"] = json_of(outcome.cause);
    if (!report.error_file.empty()) json["cause"]["error_file"] = report.error_file;
    Json others = Json::array();
    for (const Failure& other : outcome.others) {
      others.push_back(json_of(other));
      others.back()["after"] = to_seconds(other.after);
    }
    Json alike = Json::array();
    for (const agent::Tally& tally : outcome.tallies)
      alike.push_back({{"text", tally.what}, {"count", tally.count}});
    json["others"] = others;
    json["more"] = std::max(0, outcome.failure_count - 1 - static_cast<int>(outcome.others.size()));
    json["alike"] = alike;
    json["collectives"] = outcome.rank_positions;
  }
  return to_text(json);
}

std::string with_dropped(const std::string& json, const DroppedOutput& dropped) {
  const Json part = json_of(dropped);
  Json whole = Json::parse(json, nullptr, false);
  if (part.empty() || !whole.is_object()) return json;
  whole["dropped"] = part;
  return to_text(whole);
}

Result<void> check_writable(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode))
    return cannot_write(path, S_ISDIR(about.st_mode) ? "it is a directory" : "it is not a regular file");
  std::string probe = target_of(path);
  const int fd = make_beside(probe);
  if (fd < 0) return cannot_write(path, std::strerror(errno));
  close(fd);
  unlink(probe.c_str());
  return {};
}

Result<void> write_whole(const std::string& path, const std::string& text) {
  const std::string target = target_of(path);
  std::string aside = target;
  const int fd = make_beside(aside);
  if (fd < 0) return cannot_write(path, std::strerror(errno));
  constexpr mode_t for_all_to_read = 0644;
  const bool written =
      fchmod(fd, for_all_to_read) == 0 && write_all(fd, text) && rename(aside.c_str(), target.c_str()) == 0;
  const int why = errno;
  close(fd);
  if (written) return {};
  unlink(aside.c_str());
  return cannot_write(path, std::strerror(why));
}

}  // namespace dlaunch::launcher
