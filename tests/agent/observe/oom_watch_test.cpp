#include "agent/observe/oom_watch.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

constexpr ExitStatus killed{ExitStatus::How::signaled, SIGKILL, false};
constexpr ExitStatus failed{ExitStatus::How::exited, 1, false};
constexpr const char* limited = "the kernel's out-of-memory killer (limit 2 GiB of cgroup /a)";

// Plain files in place of the kernel's.
class OomWatchTest : public testing::Test {
 protected:
  void has(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void has_cgroup_v2() {
    has("proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
    has("cgroup/a/b/cgroup.procs", "");
    has("cgroup/a/b/memory.max", "max\n");
    has("cgroup/a/memory.max", "2147483648\n");
    kills_in_group(3);
  }
  void kills_in_group(int count) {
    has("cgroup/a/b/memory.events",
        "low 0\nhigh 0\nmax 12\noom 9\noom_kill " + std::to_string(count) + "\noom_group_kill 0\n");
  }
  void kills_on_machine(int count) { has("proc/vmstat", "nr_x 1\noom_kill " + std::to_string(count) + "\n"); }
  void begin() { watch_.begin(); }

  test::TemporaryFolder folder_;
  std::string log_;
  OomWatch watch_{{folder_.path() + "/proc", folder_.path() + "/cgroup", [this] { return log_; }}};
};

TEST_F(OomWatchTest, NamesTheLowestLimitAboveAndReportsAKillOnce) {
  has_cgroup_v2();
  begin();
  EXPECT_EQ(watch_.explain(7, killed).cause, "");
  kills_in_group(4);
  EXPECT_EQ(watch_.explain(7, killed).cause, limited);
  EXPECT_EQ(watch_.explain(8, killed).cause, "") << "one kill explains one death";
}

TEST_F(OomWatchTest, FindsTheLimitAsANumberToo) {
  has_cgroup_v2();
  begin();
  EXPECT_EQ(watch_.explain(7, killed), OomWatch::Finding{});
  kills_in_group(4);
  EXPECT_EQ(watch_.explain(7, killed), (OomWatch::Finding{limited, true, false, 2147483648U}));
}

TEST_F(OomWatchTest, AWorkerMayFailBecauseItsChildWasKilled) {
  has_cgroup_v2();
  begin();
  kills_in_group(4);
  EXPECT_EQ(watch_.explain(7, failed).cause,
            "the kernel's out-of-memory killer killed a process of this job (limit 2 GiB of cgroup /a)");
}

TEST_F(OomWatchTest, AVictimThatIsReportedAfterItsPeersIsTheKernels) {
  has_cgroup_v2();
  kills_on_machine(1);
  begin();
  kills_in_group(4);
  kills_on_machine(2);
  EXPECT_NE(watch_.explain(8, failed).cause, "");
  EXPECT_EQ(watch_.explain(9, failed).cause, "") << "mentioned once";
  EXPECT_EQ(watch_.explain(7, killed).cause, limited);
  EXPECT_TRUE(watch_.explain(10, killed).by_another);
}

TEST_F(OomWatchTest, APeerDoesNotMentionTheKillThatExplainsAVictim) {
  has_cgroup_v2();
  begin();
  kills_in_group(4);
  EXPECT_EQ(watch_.explain(7, killed).cause, limited);
  EXPECT_EQ(watch_.explain(8, failed).cause, "");
}

TEST_F(OomWatchTest, AShellPassesTheKillOnAsACode) {
  has_cgroup_v2();
  begin();
  kills_in_group(4);
  EXPECT_EQ(watch_.explain(7, {ExitStatus::How::exited, 137, false}).cause, limited);
}

TEST_F(OomWatchTest, WithoutALimitTheMachineWasFull) {
  has_cgroup_v2();
  has("cgroup/a/memory.max", "max\n");
  begin();
  kills_in_group(4);
  EXPECT_TRUE(watch_.explain(7, killed).cause.starts_with(
      "the kernel's out-of-memory killer (the machine's memory, "));
}

TEST_F(OomWatchTest, CgroupVersionOneIsUnderstood) {
  has("proc/self/cgroup", "9:cpu,memory:/a\n0::/other\n");
  has("cgroup/memory/a/cgroup.procs", "");
  has("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  has("cgroup/memory/a/memory.limit_in_bytes", "2147483648\n");
  has("cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  begin();
  has("cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(watch_.explain(7, killed).cause, limited);
}

TEST_F(OomWatchTest, InAContainerOnlyItsOwnPartIsMounted) {
  has("proc/self/cgroup", "0::/docker/abc\n");
  has("cgroup/cgroup.procs", "");
  has("cgroup/memory.max", "1048576\n");
  has("cgroup/memory.events", "oom_kill 0\n");
  begin();
  has("cgroup/memory.events", "oom_kill 1\n");
  EXPECT_EQ(watch_.explain(7, killed).cause, "the kernel's out-of-memory killer (limit 1 MiB of cgroup /)");
}

TEST_F(OomWatchTest, KernelLogNamesProcessesKilledElsewhere) {
  has_cgroup_v2();
  has("cgroup/z/memory.max", "4096\n");
  kills_on_machine(1);
  begin();
  kills_on_machine(2);
  log_ =
      "<6>[1.0] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/z,"
      "task_memcg=/z,task=python3,pid=77,uid=0\n"
      "<3>[1.0] Memory cgroup out of memory: Killed process 77 (python3) total-vm:1kB\n";
  EXPECT_EQ(watch_.explain(7, killed).cause, "") << "77 is not 7";
  EXPECT_EQ(watch_.explain(77, killed).cause, "the kernel's out-of-memory killer (limit 4 KiB of cgroup /z)");
}

TEST_F(OomWatchTest, KernelLogMayOmitTheCgroup) {
  has_cgroup_v2();
  kills_on_machine(1);
  begin();
  kills_on_machine(2);
  log_ = "Memory cgroup out of memory: Killed process 7 (python3) total-vm:1kB\n";
  EXPECT_EQ(watch_.explain(7, killed).cause, "the kernel's out-of-memory killer (the limit of a cgroup)");
  kills_on_machine(3);
  kills_in_group(4);
  EXPECT_EQ(watch_.explain(7, killed).cause, limited);
}

TEST_F(OomWatchTest, WithoutTheKernelLogItIsOnlyProbable) {
  kills_on_machine(1);
  begin();
  kills_on_machine(2);
  EXPECT_EQ(watch_.explain(7, killed).cause,
            "probably the kernel's out-of-memory killer, which has killed processes on this machine since "
            "the job began");
  EXPECT_EQ(watch_.explain(7, failed).cause, "");
}

TEST_F(OomWatchTest, KillByHandIsNoOomKillIfTheKernelCounts) {
  kills_on_machine(3);
  begin();
  EXPECT_EQ(watch_.explain(7, killed).cause,
            "by another process (kill -9, a scheduler, an administrator); memory had not run out");
  EXPECT_TRUE(watch_.explain(7, killed).by_another);
  EXPECT_EQ(watch_.explain(7, failed).cause, "");
}

TEST_F(OomWatchTest, UnreadableFilesExplainNothing) {
  begin();
  EXPECT_EQ(watch_.explain(7, killed).cause, "");
  has("proc/vmstat", "oom_kill x\noom_kill");
  EXPECT_EQ(watch_.explain(7, killed).cause, "");
}

}  // namespace
}  // namespace dlaunch::agent
