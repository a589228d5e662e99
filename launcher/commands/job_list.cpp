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
#include <deque>
#include <fstream>
#include <optional>
#include <utility>

#include "agent/observe/process_condition.h"
#include "store/base/time.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration patience = std::chrono::seconds(5);  // a busy machine may not run an agent for seconds
constexpr Duration patience_with_stopped = std::chrono::seconds(1);  // one that is continued answers then
constexpr Duration look_every = std::chrono::milliseconds(100);
constexpr std::size_t longest_answer = 64 << 20;
constexpr std::string_view socket_prefix = "@dlaunch/";

struct Agent {
  unsigned uid = 0;
  std::int64_t pid = 0;
  std::string name;  // of its socket, without the zero byte
};

// "@dlaunch/1000/4711", as /proc/net/unix writes an abstract name. Any user may have made it.
std::optional<Agent> agent_of(std::string_view path) {
  Agent agent;
  if (!path.starts_with(socket_prefix)) return std::nullopt;
  agent.name = path.substr(1);
  path.remove_prefix(socket_prefix.size());
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

// One agent that is asked for its status.
class Query {
 public:
  explicit Query(Agent agent);
  ~Query() { end(); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  [[nodiscard]] const Agent& agent() const { return agent_; }
  [[nodiscard]] int fd() const { return fd_; }  // -1: all has come, or no more will
  void read();                                  // what has come
  [[nodiscard]] std::optional<std::string> answer() const {
    return whole_ ? std::optional(text_) : std::nullopt;
  }

 private:
  [[nodiscard]] bool connects() const;
  [[nodiscard]] bool is_answered_by_the_agent() const;
  void end() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  const Agent agent_;
  int fd_ = -1;
  std::string text_;
  bool whole_ = false;
};

Query::Query(Agent agent)
    : agent_(std::move(agent)), fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (fd_ >= 0 && !(connects() && is_answered_by_the_agent())) end();
}

bool Query::connects() const {
  sockaddr_un address{};
  if (agent_.name.size() + 1 > sizeof address.sun_path) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, agent_.name.data(), agent_.name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + agent_.name.size());
  return connect(fd_, reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

// The process and the user in the socket's name must own it: another user could have bound this name.
bool Query::is_answered_by_the_agent() const {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == agent_.pid &&
         peer.uid == agent_.uid && (peer.uid == geteuid() || geteuid() == 0);
}

void Query::read() {
  char chunk[1 << 16];
  const ssize_t got = recv(fd_, chunk, sizeof chunk, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  whole_ = got == 0;
  if (got > 0) text_.append(chunk, static_cast<std::size_t>(got));
  if (got <= 0 || text_.size() >= longest_answer) end();
}

bool is_stopped(const Agent& agent) { return agent::condition_of(agent.pid) == agent::Condition::stopped; }

// Until all have answered, or those that have not are given up.
void await_answers(std::deque<Query>& queries) {
  const TimePoint began = steady_now();
  bool over = false;
  while (true) {
    std::vector<pollfd> fds;
    std::vector<Query*> asked;
    for (Query& query : queries) {
      if (query.fd() < 0) continue;
      fds.push_back({query.fd(), POLLIN, 0});
      asked.push_back(&query);
    }
    if (asked.empty()) return;
    // Once more when the time is over: it may have passed while this process did not run.
    const int ready = poll(fds.data(), fds.size(), over ? 0 : static_cast<int>(to_millis(look_every)));
    if (over && ready <= 0) return;
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (ready > 0 && fds[i].revents != 0) asked[i]->read();
    }
    const TimePoint now = steady_now();
    over = now >= began + patience || (now >= began + patience_with_stopped &&
                                       std::all_of(asked.begin(), asked.end(), [](const Query* query) {
                                         return query->fd() < 0 || is_stopped(query->agent());
                                       }));
  }
}

}  // namespace

JobList running_jobs() {
  std::deque<Query> queries;
  for (Agent& agent : agents()) queries.emplace_back(std::move(agent));
  await_answers(queries);
  JobList list;
  for (const Query& query : queries) {
    const Agent& agent = query.agent();
    const auto text = query.answer();
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

Result<agent::JobStatus> find_one_job(const std::string& name) {
  auto list = find_jobs(name);
  if (!list) return std::move(list).error();
  if (list->jobs.empty()) {
    return Error{ErrorKind::not_found, "agent " + name + " does not answer: it may be suspended", "", "",
                 "continue it with kill -CONT " + name};
  }
  if (list->jobs.size() > 1) {
    std::string pids;
    for (const agent::JobStatus& job : list->jobs)
      pids += (pids.empty() ? "" : ", ") + std::to_string(job.agent);
    return Error{ErrorKind::invalid, "several agents of job '" + name + "' run on this machine", "", "",
                 "name one by its pid: " + pids};
  }
  return std::move(list->jobs.front());
}

}  // namespace dlaunch::launcher
