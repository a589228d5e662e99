#include "launcher/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

namespace dlaunch::launcher {
namespace {

std::string kind_in_words(agent::FailureKind kind) {
  switch (kind) {
    case agent::FailureKind::worker:
      return "worker";
    case agent::FailureKind::spawn:
      return "spawn";
    case agent::FailureKind::node_lost:
      return "node_lost";
    case agent::FailureKind::signal:
      return "signal";
    case agent::FailureKind::join:
      return "join";
    case agent::FailureKind::unkillable:
      return "unkillable";
    case agent::FailureKind::agent:
      return "agent";
  }
  return "";
}

nlohmann::ordered_json cause_of(const agent::Failure& failure) {
  nlohmann::ordered_json cause = {{"kind", kind_in_words(failure.kind)},
                                  {"text", describe(failure)},
                                  {"round", failure.round},
                                  {"node_rank", failure.node_rank},
                                  {"host", failure.host}};
  if (failure.rank >= 0) {
    cause["rank"] = failure.rank;
    cause["local_rank"] = failure.local_rank;
    cause["pid"] = failure.pid;
  }
  const bool has_status =
      failure.kind == agent::FailureKind::worker || failure.kind == agent::FailureKind::signal;
  if (has_status && failure.status.how == agent::ExitStatus::How::signaled) {
    cause["signal"] = failure.status.number;
  } else if (has_status) {
    cause["exit_code"] = failure.status.number;
  }
  if (!failure.error.empty()) cause["error"] = failure.error;
  if (!failure.tail.empty()) cause["stderr"] = failure.tail;
  return cause;
}

Error cannot_write(const std::string& path, int why) {
  return {ErrorKind::io, "cannot write", path, std::strerror(why), "choose another place"};
}

// A new file beside `path`, open, or a negative number.
int open_beside(const std::string& path, std::string& name) {
  name = path + ".XXXXXX";
  return mkostemp(name.data(), O_CLOEXEC);
}

}  // namespace

std::string report_json(const agent::JobSpec& job, const agent::NodeSpec& node, const agent::Outcome& outcome,
                        const EndFacts& facts) {
  std::string program;
  for (const std::string& word : node.command) program.append(program.empty() ? "" : " ").append(word);
  nlohmann::ordered_json report = {{"job", job.id},
                                   {"program", program},
                                   {"nnodes", job.nnodes},
                                   {"node_rank", node.node_rank},
                                   {"host", node.host},
                                   {"exit_code", outcome.exit_code},
                                   {"failed", outcome.failed},
                                   {"restarts_used", outcome.restarts_used},
                                   {"max_restarts", job.max_restarts},
                                   {"began", facts.began},
                                   {"ended", facts.ended}};
  if (!facts.log_dir.empty()) report["log_dir"] = facts.log_dir;
  if (outcome.failed) {
    report["cause"] = cause_of(outcome.cause);
    nlohmann::ordered_json others = nlohmann::ordered_json::array();
    for (const agent::Failure& other : outcome.others) others.push_back(cause_of(other));
    report["others"] = others;
    report["more"] = outcome.more;
  }
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<void> check_writable(const std::string& path) {
  std::string name;
  const int fd = open_beside(path, name);
  if (fd < 0) return cannot_write(path, errno);
  close(fd);
  unlink(name.c_str());
  return {};
}

Result<void> write_whole(const std::string& path, const std::string& text) {
  std::string name;
  const int fd = open_beside(path, name);
  if (fd < 0) return cannot_write(path, errno);
  std::size_t done = 0;
  int why = 0;
  while (done < text.size() && why == 0) {
    const ssize_t wrote = write(fd, text.data() + done, text.size() - done);
    if (wrote > 0) done += static_cast<std::size_t>(wrote);
    if (wrote < 0 && errno != EINTR) why = errno;
  }
  if (why == 0 && (fchmod(fd, 0644) != 0 || fsync(fd) != 0)) why = errno;
  close(fd);
  if (why == 0 && std::rename(name.c_str(), path.c_str()) != 0) why = errno;
  if (why == 0) return {};
  unlink(name.c_str());
  return cannot_write(path, why);
}

}  // namespace dlaunch::launcher
