// Which jobs a name means; and agents of this machine that answer or not: processes with a status socket.
#include "launcher/commands/job_list.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>

#include "agent/platform/status_socket.h"
#include "store/loop/uv_loop.h"

namespace dlaunch::launcher {
namespace {

agent::JobStatus job(const std::string& id, std::int64_t agent, std::int64_t user) {
  agent::JobStatus status;
  status.job = id;
  status.agent = agent;
  status.user = user;
  return status;
}

std::vector<std::int64_t> agents_of(const JobList& list) {
  std::vector<std::int64_t> agents;
  for (const agent::JobStatus& one : list.jobs) agents.push_back(one.agent);
  return agents;
}

using Pids = std::vector<std::int64_t>;

const JobList some{{job("a", 11, 1000), job("b", 12, 1001), job("a", 13, 1001)}, {14, 15}};

TEST(JobList, ANameIsAnIdOrAnAgent) {
  EXPECT_EQ(agents_of(select_jobs(some, "")), (Pids{11, 12, 13}));
  EXPECT_EQ(agents_of(select_jobs(some, "a")), (Pids{11, 13}));
  EXPECT_EQ(agents_of(select_jobs(some, "12")), Pids{12});
  EXPECT_EQ(agents_of(select_jobs(some, "1")), Pids{}) << "it is the beginning of one";
}

TEST(JobList, AnAgentThatDoesNotAnswerIsMeantByItsPidOnly) {
  EXPECT_EQ(select_jobs(some, "").silent, (Pids{14, 15}));
  EXPECT_EQ(select_jobs(some, "14").silent, Pids{14});
  EXPECT_EQ(select_jobs(some, "a").silent, Pids{});
}

TEST(JobList, OwnJobsArePreferred) {
  EXPECT_EQ(agents_of(prefer_jobs_of(1001, some)), (Pids{12, 13}));
  EXPECT_EQ(agents_of(prefer_jobs_of(0, some)), (Pids{11, 12, 13})) << "the user has none";
}

// A process that runs `part` once it has been made, until it is killed.
class OtherProcess {
 public:
  explicit OtherProcess(const std::function<void(const std::function<void()>& ready)>& part) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    pid = fork();
    if (pid == 0) {
      part([&] { close(ends[0]), close(ends[1]); });
      while (true) pause();
    }
    close(ends[1]);
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 0) << "it is ready";
    close(ends[0]);
  }
  ~OtherProcess() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  pid_t pid = -1;
};

// An agent whose status has this pid; 0: its own.
std::function<void(const std::function<void()>&)> agent_with(const std::string& id, std::int64_t pid = 0) {
  return [id, pid](const std::function<void()>& ready) {
    UvLoop loop;
    UvPoller poller(loop);
    const agent::StatusSocket socket(poller,
                                     [&] { return agent::to_json(job(id, pid != 0 ? pid : getpid(), -1)); });
    ready();
    loop.run();
  };
}

// Listens at the name of an agent with this pid, and never answers.
std::function<void(const std::function<void()>&)> listener_named(std::int64_t pid) {
  return [pid](const std::function<void()>& ready) {
    const std::string name = agent::status_socket_name(geteuid(), pid != 0 ? pid : getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 && listen(fd, 8) == 0) ready();
  };
}

bool contains(const Pids& pids, pid_t pid) { return std::find(pids.begin(), pids.end(), pid) != pids.end(); }

TEST(RunningJobs, AreThoseWhoseAgentsAnswer) {
  const std::string id = "job_list_test." + std::to_string(getpid());
  const OtherProcess first(agent_with(id));
  const OtherProcess second(agent_with(id));
  const auto found = find_jobs(id);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->jobs.size(), 2U);
  EXPECT_EQ(found->jobs[0].user, static_cast<std::int64_t>(geteuid()));
  EXPECT_EQ(agents_of(*find_jobs(std::to_string(second.pid))), Pids{second.pid});
}

TEST(RunningJobs, AnAgentThatDoesNotAnswerIsListed) {
  const OtherProcess silent(listener_named(0));
  EXPECT_TRUE(contains(running_jobs().silent, silent.pid));
  const auto found = find_jobs(std::to_string(silent.pid));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->silent, Pids{silent.pid});
  const auto other = find_jobs("no-such-job");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message().find("agent " + std::to_string(silent.pid) + " does not answer"),
            std::string::npos)
      << other.error().message();
}

TEST(RunningJobs, AProcessCannotAnswerForAnother) {
  const std::string id = "job_list_test." + std::to_string(getpid());
  const OtherProcess victim([](const std::function<void()>& ready) { ready(); });
  const OtherProcess liar(agent_with(id, victim.pid));
  const OtherProcess squatter(listener_named(victim.pid));
  const auto found = find_jobs(id);
  EXPECT_FALSE(found.ok()) << "its status names another process than its socket";
  EXPECT_FALSE(contains(agents_of(running_jobs()), victim.pid));
}

}  // namespace
}  // namespace dlaunch::launcher
