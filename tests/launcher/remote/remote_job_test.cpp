// What RemoteJob decides, event by event and by a virtual clock.

#include "launcher/remote/remote_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <random>

namespace dlaunch::launcher {
namespace {

using agent::ExitStatus;
using agent::FailureKind;
using Kind = AgentMessage::Kind;

const ExitStatus killed{ExitStatus::How::signaled, SIGKILL};

ExitStatus exited(int code) { return {ExitStatus::How::exited, code}; }

RemotePlan plan_for(int hosts) {
  RemotePlan plan;
  plan.job.stop_timeout.usual = std::chrono::seconds(30);
  plan.job.join_timeout = std::chrono::seconds(900);
  for (int i = 0; i < hosts; ++i)
    plan.hosts.push_back({"h" + std::to_string(i), "h" + std::to_string(i), false, {"ssh"}, ""});
  return plan;
}

class Job {
 public:
  explicit Job(int hosts, bool fixed_size = true) : Job(plan_for(hosts), fixed_size) {}
  explicit Job(RemotePlan plan, bool fixed_size = true) : plan_(std::move(plan)) {
    plan_.fixed_size = fixed_size;
    take(job_.begin(now_));
  }

  void event(const RemoteEvent& event) {
    if (std::holds_alternative<RemoteTimer>(event)) timer_.reset();
    take(job_.step(now_, event));
    const bool answered = std::holds_alternative<RemoteTimer>(event) && !job_.ended();
    EXPECT_TRUE(!answered || !timer_ || *timer_ > now_) << "it would come to nothing else";
  }
  void all_ready() {
    for (int i = 0; i < static_cast<int>(plan_.hosts.size()); ++i) event(HostReady{i});
  }
  void ends(int node, int code, const std::string& report = "") {
    if (!report.empty()) event(HostMessage{node, {Kind::report, report}});
    event(HostMessage{node, {Kind::end, std::to_string(code)}});
    event(HostGone{node, exited(code), ""});
  }
  // Until the timer that is armed.
  void wait() {
    ASSERT_TRUE(timer_);
    now_ = *timer_;
    event(RemoteTimer{});
  }
  // What was decided since the last call, of one kind.
  template <class Action>
  std::vector<Action> did() {
    std::vector<Action> out;
    for (const RemoteAction& action : done_) {
      if (const auto* one = std::get_if<Action>(&action)) out.push_back(*one);
    }
    std::erase_if(done_, [](const RemoteAction& action) { return std::holds_alternative<Action>(action); });
    return out;
  }
  [[nodiscard]] bool ended() const { return job_.ended(); }
  [[nodiscard]] RemoteOutcome outcome() const { return job_.outcome(); }
  [[nodiscard]] std::string why() const { return outcome().cause ? describe(*outcome().cause) : ""; }
  [[nodiscard]] TimePoint now() const { return now_; }
  void pass(Duration time) { now_ += time; }

 private:
  void take(const RemoteActions& actions) {
    for (const RemoteAction& action : actions) {
      if (const auto* timer = std::get_if<ArmRemoteTimer>(&action)) timer_ = timer->at;
      done_.push_back(action);
    }
  }

  RemotePlan plan_;
  TimePoint now_{std::chrono::seconds(1000)};
  RemoteJob job_{plan_, Duration::zero()};
  RemoteActions done_;
  std::optional<TimePoint> timer_;
};

TEST(RemoteJob, NodeZerosEndIsTheJobs) {
  Job job(3);
  EXPECT_EQ(job.did<RunHost>().size(), 3U);
  job.all_ready();
  job.ends(2, 5, "failed: x");
  job.event(HostMessage{0, {Kind::json, "{}"}});
  job.event(HostMessage{0, {Kind::report, "first"}});
  job.ends(0, 5, "failed: x");
  EXPECT_FALSE(job.ended());
  job.ends(1, 5, "failed: x");
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().exit_code, 5);
  EXPECT_EQ(job.outcome().report, (std::vector<std::string>{"first", "failed: x"}));
  EXPECT_EQ(job.outcome().json, "{}");
  EXPECT_FALSE(job.outcome().cause);
  EXPECT_TRUE(job.did<PassSignal>().empty());
  EXPECT_TRUE(job.did<Disconnect>().empty());
}

TEST(RemoteJob, NotTooManyAreBeingStartedAtOnce) {
  constexpr int hosts = RemoteJob::fan_out + 10;
  Job job(hosts);
  EXPECT_EQ(job.did<RunHost>().size(), static_cast<std::size_t>(RemoteJob::fan_out));
  job.event(HostReady{3});
  EXPECT_EQ(job.did<RunHost>(), std::vector<RunHost>{RunHost{RemoteJob::fan_out}});
  for (int i = 0; i < RemoteJob::fan_out; ++i) job.event(HostReady{i});
  EXPECT_EQ(job.did<RunHost>().size(), 9U);
}

// Node 1 starts the nodes from 2 on.
RemotePlan plan_of_a_tree(int hosts) {
  RemotePlan plan = plan_for(hosts);
  for (std::size_t i = 2; i < plan.hosts.size(); ++i) plan.hosts[i].starter = 1;
  return plan;
}

TEST(RemoteJob, EachMachineStartsSoManyAtOnce) {
  Job job(plan_of_a_tree(RemoteJob::fan_out + 12));
  EXPECT_EQ(job.did<RunHost>().size(), static_cast<std::size_t>(2 + RemoteJob::fan_out));
  job.event(HostReady{1});
  EXPECT_TRUE(job.did<RunHost>().empty()) << "it is none of those that node 1 starts";
  job.event(HostReady{5});
  EXPECT_EQ(job.did<RunHost>().size(), 1U);
}

TEST(RemoteJob, WhatAHostCannotStartThisMachineStarts) {
  Job job(plan_of_a_tree(4));
  job.did<RunHost>();
  for (const int node : {0, 1}) job.event(HostReady{node});
  job.event(HostGone{2, exited(255), "Permission denied (publickey).\r\n"});
  job.event(HostNotRun{3, "cannot run ssh: No such file or directory"});
  EXPECT_EQ(job.did<RunHost>(), (std::vector<RunHost>{{2, true}, {3, true}}));
  const auto lines = job.did<agent::LogMessage>();
  ASSERT_EQ(lines.size(), 1U) << "once";
  EXPECT_EQ(
      lines[0].text,
      "host h1 cannot start on host h2 (node 2): its ssh server refused the key; 'ssh h2 true' must work "
      "without a password: ssh-copy-id h2, or --ssh='ssh -i KEY'; this machine connects to such hosts "
      "itself (--tree-width=0: to all)");
  job.event(HostReady{2});
  job.event(HostGone{3, exited(255), "Permission denied (publickey).\r\n"});
  EXPECT_TRUE(job.did<RunHost>().empty()) << "it has been tried";
  for (int node = 0; node < 3; ++node) job.ends(node, 129, "stopped: node 0");
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.why().find("cannot start on host h3 (node 3): its ssh server refused the key"), 0U)
      << job.why();
}

TEST(RemoteJob, AHostThatHasAnsweredIsNotTriedAgain) {
  Job job(plan_of_a_tree(3));
  job.did<RunHost>();
  job.event(HostGone{2, exited(127), "dlaunch: there is no dlaunch at /opt/dlaunch\n"});
  EXPECT_TRUE(job.did<RunHost>().empty());
  EXPECT_EQ(job.did<Disconnect>().size(), 2U) << "the job ends";
}

TEST(RemoteJob, AStarterThatIsStartedLaterIsWaitedFor) {
  RemotePlan plan = plan_for(RemoteJob::fan_out + 3);
  plan.hosts.back().starter = RemoteJob::fan_out + 1;
  Job job(std::move(plan));
  EXPECT_EQ(job.did<RunHost>().size(), static_cast<std::size_t>(RemoteJob::fan_out));
  job.event(HostReady{0});
  job.event(HostReady{1});
  EXPECT_EQ(job.did<RunHost>().size(), 3U) << "the starter, and what it starts";
}

TEST(RemoteJob, AHostThatDoesNotStartEndsTheOthers) {
  Job job(RemoteJob::fan_out + 5);
  job.event(HostReady{0});
  job.did<RunHost>();
  job.event(HostGone{1, exited(255), "ssh: connect to host h1 port 22: Connection refused\r\n"});
  EXPECT_EQ(job.did<PassSignal>(), (std::vector<PassSignal>{{0, SIGHUP}}));
  EXPECT_EQ(job.did<Disconnect>().size(), static_cast<std::size_t>(RemoteJob::fan_out - 1));
  EXPECT_TRUE(job.did<RunHost>().empty());
  job.ends(0, 129, "stopped: node 0");
  for (int i = 2; i <= RemoteJob::fan_out; ++i) job.event(HostGone{i, killed, ""});
  ASSERT_TRUE(job.ended());  // also with hosts that were never started
  EXPECT_EQ(job.outcome().exit_code, 1);
  EXPECT_EQ(job.why().find("cannot start on host h1 (node 1): no ssh server listens there"), 0U) << job.why();
  EXPECT_TRUE(job.outcome().report.empty());
}

TEST(RemoteJob, AUsageErrorThereIsOneHere) {
  Job job(1);
  job.event(HostGone{0, exited(2), "dlaunch: --x: no\n"});
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().exit_code, 2);
}

TEST(RemoteJob, HostThatCannotBeStartedIsNamed) {
  Job job(2);
  job.event(HostNotRun{0, "cannot run ssh: Too many open files"});
  job.event(HostGone{1, killed, ""});
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.why(), "cannot start on host h0 (node 0): cannot run ssh: Too many open files");
}

TEST(RemoteJob, AHostThatTakesTooLongIsGivenUp) {
  Job job(2);
  const TimePoint began = job.now();
  job.event(HostReady{0});
  job.wait();
  EXPECT_EQ(job.now() - began, std::chrono::seconds(900));
  EXPECT_EQ(job.did<Disconnect>(), std::vector<Disconnect>{Disconnect{1}});
  EXPECT_EQ(job.did<SignalHost>(), (std::vector<SignalHost>{{1, SIGTERM}}));
  job.event(HostGone{1, killed, ""});
  job.ends(0, 143);
  EXPECT_EQ(job.why(),
            "cannot start on host h1 (node 1): it did not start within 15 min 0 s (--join-timeout)");
}

TEST(RemoteJob, ADeadlineThatPassesWhileNodeZeroEndsIsNotAskedForAgain) {
  Job job(2);
  job.event(HostReady{0});
  job.event(HostMessage{0, {Kind::end, "1"}});
  job.wait();
  EXPECT_EQ(job.did<Disconnect>(), std::vector<Disconnect>{Disconnect{1}});
  job.event(HostGone{0, exited(1), ""});
  job.event(HostGone{1, killed, ""});
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.why().find("cannot start on host h1 (node 1): "), 0U);
}

TEST(RemoteJob, LateHostIsTheCauseIfNodeZeroGivesUp) {
  Job job(3);
  job.event(HostReady{0});
  job.event(HostReady{1});
  job.ends(0, 1, "failed: waited for node 2 of 3");
  EXPECT_TRUE(job.did<Disconnect>().empty());  // it may have taken part
  job.wait();
  EXPECT_EQ(job.did<Disconnect>(), std::vector<Disconnect>{Disconnect{2}});
  EXPECT_EQ(job.did<SignalHost>(), (std::vector<SignalHost>{{2, SIGTERM}}));
  EXPECT_TRUE(job.did<PassSignal>().empty());  // node 0 has notified the other
  job.ends(1, 1, "failed: waited for node 2 of 3");
  job.event(HostGone{2, killed, ""});
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().exit_code, 1);
  EXPECT_EQ(job.why(),
            "cannot start on host h2 (node 2): it did not answer while node 0 waited; 'ssh h2 "
            "true' must succeed without a prompt");
}

TEST(RemoteJob, HostThatFailsAfterNodeZeroHasGivenUpIsTheCause) {
  Job job(2);
  job.event(HostReady{0});
  job.ends(0, 1, "failed: waited for node 1 of 2");
  job.event(HostGone{1, exited(255), "ssh: connect to host h1 port 22: Connection refused\r\n"});
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().exit_code, 1);
  EXPECT_EQ(job.why().find("cannot start on host h1 (node 1): no ssh server listens there"), 0U) << job.why();
}

// The connection to it was slower than the job.
TEST(RemoteJob, HostFromWhichAllComesAfterNodeZerosEndHasTakenPart) {
  for (const int code : {0, 1}) {
    Job job(2);
    job.event(HostReady{0});
    job.ends(0, code, "failed: rank 0");
    EXPECT_FALSE(job.ended());
    job.event(HostReady{1});
    job.wait();
    EXPECT_TRUE(job.did<Disconnect>().empty());
    EXPECT_TRUE(job.did<SignalHost>().empty());
    job.ends(1, code, "failed: rank 0");
    ASSERT_TRUE(job.ended());
    EXPECT_EQ(job.outcome().exit_code, code);
    EXPECT_FALSE(job.outcome().cause);
  }
}

TEST(RemoteJob, SignalsReachEveryHost) {
  Job job(2);
  job.all_ready();
  job.event(UserSignal{SIGUSR1, false});
  EXPECT_EQ(job.did<PassSignal>(), (std::vector<PassSignal>{{0, SIGUSR1}, {1, SIGUSR1}}));
  job.event(UserSignal{SIGINT, true});
  EXPECT_EQ(job.did<PassSignal>(), (std::vector<PassSignal>{{0, SIGINT}, {1, SIGINT}}));
  job.event(UserSignal{SIGINT, true});
  EXPECT_EQ(job.did<PassSignal>().size(), 2U);
  job.ends(1, 130, "failed: another view");
  job.ends(0, 130, "stopped: node 0 was stopped by SIGINT");
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().exit_code, 130);
  EXPECT_EQ(job.outcome().report, std::vector<std::string>{"stopped: node 0 was stopped by SIGINT"});
}

TEST(RemoteJob, ASignalBeforeAnythingIsUpEndsIt) {
  Job job(2);
  job.event(UserSignal{SIGTERM, true});
  EXPECT_EQ(job.did<Disconnect>().size(), 2U);
  EXPECT_EQ(job.did<SignalHost>().size(), 2U);
  job.event(HostReady{1});  // it was just about to be
  EXPECT_EQ(job.did<PassSignal>(), (std::vector<PassSignal>{{1, SIGTERM}}));
  job.event(HostGone{0, killed, "dlaunch: x\n"});
  job.ends(1, 143);
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().exit_code, 143);
  EXPECT_EQ(job.why(), "node 0 (host h0) was stopped by SIGTERM");
}

TEST(RemoteJob, WithoutNodeZeroThereIsNoJob) {
  Job job(3);
  job.all_ready();
  job.event(HostGone{0, exited(255), "Connection to h0 closed by remote host.\n"});
  EXPECT_EQ(job.did<PassSignal>(), (std::vector<PassSignal>{{1, SIGHUP}, {2, SIGHUP}}));
  job.ends(1, 1, "failed: node 0 was lost");
  job.ends(2, 143);
  EXPECT_EQ(job.outcome().exit_code, 1);
  EXPECT_EQ(job.why(),
            "node 0 (host h0) was lost: its dlaunch was killed, or the connection to it was cut; the process "
            "for it here exited with code 255");
}

TEST(RemoteJob, ALostHostIsTheOthersAffairForAWhile) {
  Job job(2);
  job.all_ready();
  job.event(HostGone{1, killed, ""});
  EXPECT_TRUE(job.did<PassSignal>().empty());
  EXPECT_TRUE(job.did<Disconnect>().empty());
  job.ends(0, 1, "failed: node 1 (host h1) was lost: connection closed");
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().report.back(), "failed: node 1 (host h1) was lost: connection closed");

  Job deaf(2);
  deaf.all_ready();
  deaf.event(HostGone{1, killed, ""});
  const TimePoint lost = deaf.now();
  deaf.wait();
  EXPECT_EQ(deaf.now() - lost, std::chrono::seconds(30) + RemoteJob::end_margin);
  EXPECT_EQ(deaf.did<PassSignal>(), (std::vector<PassSignal>{{0, SIGHUP}}));
  deaf.ends(0, 129, "stopped: node 0 was stopped by SIGHUP");
  EXPECT_EQ(deaf.outcome().exit_code, 1);
  EXPECT_EQ(deaf.why().find("node 1 (host h1) was lost"), 0U);
}

TEST(RemoteJob, StartFailureOfNodeZeroIsTheCauseAlsoAfterOthersGaveUp) {
  Job job(2);
  job.event(HostReady{1});
  job.ends(1, 1, "failed: node 0 refused this node: it belongs to another job");
  job.event(HostGone{0, exited(1), "dlaunch: cannot listen: in use\n"});
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().exit_code, 1);
  EXPECT_EQ(job.why(), "cannot start on host h0 (node 0): cannot listen: in use");
}

TEST(RemoteJob, ACutConnectionIsNamedAsSuch) {
  for (const bool by_the_user : {false, true}) {
    Job job(2);
    job.all_ready();
    if (by_the_user) job.event(UserSignal{SIGHUP, true});
    job.event(HostGone{1, exited(255), ""});
    job.ends(0, 128 + SIGHUP, "stopped: node 1 (host h1) was stopped by SIGHUP");
    ASSERT_TRUE(job.ended());
    EXPECT_EQ(job.outcome().exit_code, by_the_user ? 129 : 1);
    EXPECT_EQ(job.why().find("node 1 (host h1) was lost: its dlaunch was killed, or the connection"),
              by_the_user ? std::string::npos : 0);
  }
}

TEST(RemoteJob, AJobThatMayShrinkGoesOnWithoutAHost) {
  Job job(3, false);
  job.all_ready();
  job.event(HostGone{2, killed, ""});
  job.ends(1, 1);
  EXPECT_FALSE(job.ended());
  job.pass(std::chrono::seconds(3600));
  job.event(RemoteTimer{});
  EXPECT_TRUE(job.did<Disconnect>().empty());
  job.ends(0, 0);
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().exit_code, 0);
}

TEST(RemoteJob, ReportIncludesFactsOfOneNode) {
  Job job(3);
  job.all_ready();
  job.ends(1, 1, "failed: node 0 at h0:1 never answered");
  job.ends(2, 1, "failed: waited for node 1");
  job.ends(0, 1, "failed: waited for node 1");
  EXPECT_EQ(job.outcome().report, (std::vector<std::string>{"h1: failed: node 0 at h0:1 never answered",
                                                            "failed: waited for node 1"}));
}

TEST(RemoteJob, HostThatDoesNotEndIsKilled) {
  Job job(2);
  job.all_ready();
  job.ends(0, 0);
  job.wait();
  EXPECT_EQ(job.did<PassSignal>(), (std::vector<PassSignal>{{1, SIGHUP}}));
  job.wait();
  EXPECT_EQ(job.did<Disconnect>(), std::vector<Disconnect>{Disconnect{1}});
  job.wait();
  EXPECT_EQ(job.did<SignalHost>(), (std::vector<SignalHost>{{1, SIGKILL}}));
  EXPECT_FALSE(job.ended());
  job.wait();
  EXPECT_EQ(job.did<agent::LogMessage>().size(), 1U);
  ASSERT_TRUE(job.ended());
  EXPECT_EQ(job.outcome().exit_code, 0);
}

// Whatever happens in whatever order, it ends, once, and never acts on what is not there.
TEST(RemoteJob, EndsAfterEveryEventSequence) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const int hosts = 1 + static_cast<int>(random() % 5);
    Job job(hosts, random() % 2 == 0);
    std::vector<int> there;  // what runs on this machine
    const auto follow = [&] {
      for (const RunHost& run : job.did<RunHost>()) there.push_back(run.node);
    };
    follow();
    int ends = 0;
    for (int step = 0; step < 400 && !job.ended(); ++step) {
      job.pass(std::chrono::milliseconds(random() % 20000));
      const int node = there.empty() ? 0 : there[random() % there.size()];
      switch (random() % 8) {
        case 0:
        case 1:
          if (!there.empty()) job.event(HostReady{node});
          break;
        case 2:
          if (!there.empty()) job.event(HostMessage{node, {Kind::end, std::to_string(random() % 3)}});
          break;
        case 3:
          if (!there.empty() && random() % 3 == 0) {
            std::erase(there, node);
            job.event(HostGone{node, exited(static_cast<int>(random() % 3)), "x\n"});
          }
          break;
        case 4:
          if (random() % 10 == 0) job.event(UserSignal{SIGTERM, random() % 2 == 0});
          break;
        default:
          job.event(RemoteTimer{});
      }
      follow();
      ends += static_cast<int>(job.did<RemoteEnded>().size());
    }
    for (int step = 0; step < 10 && !job.ended(); ++step) {
      job.pass(std::chrono::seconds(2000));
      job.event(RemoteTimer{});
      follow();
      // A node that is left alone with a job that may continue ends it.
      if (step == 5) job.event(UserSignal{SIGINT, true});
      ends += static_cast<int>(job.did<RemoteEnded>().size());
    }
    ASSERT_TRUE(job.ended()) << seed;
    ASSERT_EQ(ends, 1) << seed;
    const auto cause = job.outcome().cause;
    ASSERT_TRUE(!cause || cause->kind != FailureKind::signal || cause->status.number != 0) << seed;
  }
}

}  // namespace
}  // namespace dlaunch::launcher
