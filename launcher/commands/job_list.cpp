#include "launcher/commands/job_list.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>

#include "store/base/time.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration patience = std::chrono::seconds(1);
constexpr std::size_t longest_answer = 64 << 20;
constexpr std::string_view mark = "@dlaunch/";

struct Agent {
  unsigned uid = 0;
  std::int64_t pid = 0;
  std::string name;  // of its socket, without the zero byte
};

// "@dlaunch/1000/4711", as /proc/net/unix writes an abstract name. Any user may have made it.
std::optional<Agent> agent_of(std::string_view path) {
  Agent agent;
  if (!path.starts_with(mark)) return std::nullopt;
  agent.name = path.substr(1);
  path.remove_prefix(mark.size());
  const char* const end = path.data() + path.size();
  const auto uid = std::from_chars(path.data(), end, agent.uid);
  if (uid.ec != std::errc{} || uid.ptr == end || *uid.ptr != '/') return std::nullopt;
  const auto pid = std::from_chars(uid.ptr + 1, end, agent.pid);
  if (pid.ec != std::errc{} || pid.ptr != end) return std::nullopt;
  return agent;
}

std::vector<Agent> agents() {
  std::vector<Agent> found;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    auto agent = agent_of(std::string_view(line).substr(line.rfind(' ') + 1));
    if (!agent || (geteuid() != 0 && agent->uid != geteuid())) continue;
    // A listener and its open connections have the same name.
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const Agent& a) { return a.pid == agent->pid; });
    if (!known) found.push_back(*agent);
  }
  return found;
}

bool wait_for(int fd, short events, TimePoint deadline) {
  const std::int64_t left = to_millis(deadline - steady_now());
  pollfd one{fd, events, 0};
  return left > 0 && poll(&one, 1, static_cast<int>(left)) > 0;
}

// The process and the user in the socket's name must own it: another user could have bound this name.
bool is_agents_own(int fd, const Agent& agent) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == agent.pid &&
         peer.uid == agent.uid && (peer.uid == geteuid() || geteuid() == 0);
}

std::optional<std::string> query(const Agent& agent) {
  sockaddr_un address{};
  if (agent.name.size() + 1 > sizeof address.sun_path) return std::nullopt;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::nullopt;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, agent.name.data(), agent.name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + agent.name.size());
  std::string text;
  bool whole = false;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 && is_agents_own(fd, agent)) {
    const TimePoint deadline = steady_now() + patience;
    char chunk[1 << 16];
    while (!whole && text.size() < longest_answer && wait_for(fd, POLLIN, deadline)) {
      const ssize_t got = recv(fd, chunk, sizeof chunk, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0) break;
      whole = got == 0;
      text.append(chunk, static_cast<std::size_t>(got));
    }
  }
  close(fd);
  return whole ? std::optional(text) : std::nullopt;
}

}  // namespace

JobList running_jobs() {
  JobList list;
  for (const Agent& agent : agents()) {
    const auto text = query(agent);
    auto status = text ? agent::status_from_json(*text) : Error{};
    if (status && status->agent == agent.pid) {
      status->user = agent.uid;
      list.jobs.push_back(std::move(*status));
    } else if (access(("/proc/" + std::to_string(agent.pid)).c_str(), F_OK) ==
               0) {  // it has not ended meanwhile
      list.silent.push_back(agent.pid);
    }
  }
  std::sort(list.jobs.begin(), list.jobs.end(),
            [](const auto& a, const auto& b) { return a.age_s > b.age_s; });
  return list;
}

JobList select_jobs(JobList list, const std::string& name) {
  if (name.empty()) return list;
  std::erase_if(list.jobs, [&](const agent::JobStatus& job) {
    return job.job != name && std::to_string(job.agent) != name;
  });
  std::erase_if(list.silent, [&](std::int64_t pid) { return std::to_string(pid) != name; });
  return list;
}

JobList prefer_jobs_of(std::int64_t user, JobList list) {
  const auto is_own = [&](const agent::JobStatus& job) { return job.user == user; };
  if (std::any_of(list.jobs.begin(), list.jobs.end(), is_own))
    std::erase_if(list.jobs, [&](const agent::JobStatus& job) { return !is_own(job); });
  return list;
}

Result<JobList> find_jobs(const std::string& name) {
  const JobList running = running_jobs();
  JobList list = select_jobs(running, name);
  if (name.empty() || !list.jobs.empty() || !list.silent.empty()) return list;
  std::string hint = "dlaunch status lists the running jobs";
  for (const std::int64_t pid : running.silent)
    hint += "; agent " + std::to_string(pid) + " does not answer, so its job is unknown";
  return Error{ErrorKind::not_found, "no job '" + name + "' runs on this machine", "", "", hint};
}

}  // namespace dlaunch::launcher
