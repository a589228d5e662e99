// The processes that connect to the hosts are shells here, whose scripts speak like agents.
#include "launcher/remote/remote_runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/launcher/own_process.h"

namespace dlaunch::launcher {
namespace {

const std::string key = "k12";

// A shell's command that prints this message of an agent.
std::string says(AgentMessage::Kind kind, const std::string& text = "") {
  return "printf %s '" + to_line(key, {kind, text}) + "'";
}
const std::string is_up = says(AgentMessage::Kind::ready) + "\n" + says(AgentMessage::Kind::ready) + " >&2\n";
std::string ends_with(int code) {
  return says(AgentMessage::Kind::end, std::to_string(code)) + " >&2\nexit " + std::to_string(code) + "\n";
}

class RemoteRunnerTest : public testing::Test, public TimerHandler {
 protected:
  RemoteRunnerTest() {
    plan_.key = key;
    plan_.job.stop_timeout.usual = std::chrono::seconds(30);
    plan_.job.join_timeout = std::chrono::minutes(1);
  }
  void add_host(const std::string& script, const std::vector<std::string>& command = {"sh"}) {
    const std::string name = "h" + std::to_string(plan_.hosts.size());
    // In braces, so that the shell has read all of it before the agent's input follows.
    plan_.hosts.push_back({name, name, false, command, "{\n" + script + "}\n"});
    plan_.job.nnodes = static_cast<int>(plan_.hosts.size());
  }
  // `look` is called now and then while the job runs.
  RemoteOutcome run(const std::function<void(RemoteRunner&)>& look = nullptr) {
    const int out = open(out_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const int err = open(err_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    RemoteOutcome outcome;
    {
      UvLoop loop;
      loop_ = &loop;
      UvPoller poller(loop);
      RemoteRunner::Consoles consoles{agent::Console(out), agent::Console(err)};
      RemoteRunner runner(plan_, Duration(0), std::chrono::seconds(5), loop, poller, consoles);
      look_ = [&] {
        if (look) look(runner);
      };
      deadline_ = loop.now() + std::chrono::minutes(1);
      on_timer({});
      runner.begin();
      loop.run();
      EXPECT_TRUE(runner.job().ended());
      if (runner.job().ended()) outcome = runner.job().outcome();
      loop.disarm(timer_);
    }
    close(out);
    close(err);
    return outcome;
  }
  void on_timer(TimerId) override {
    look_();
    if (loop_->now() > deadline_) return loop_->stop();
    timer_ = loop_->arm(loop_->now() + std::chrono::milliseconds(5), *this);
  }
  [[nodiscard]] std::string out() const { return test::content_of(out_); }
  [[nodiscard]] std::string err() const { return test::content_of(err_); }

  test::TemporaryFolder folder_;
  RemotePlan plan_;

 private:
  std::string out_ = folder_.path() + "/out";
  std::string err_ = folder_.path() + "/err";
  UvLoop* loop_ = nullptr;
  std::function<void()> look_;
  TimePoint deadline_;
  TimerId timer_;
};

TEST_F(RemoteRunnerTest, LinesOfAnAgentThatIsUpAreForwardedAndItsCodeIsTheJobs) {
  add_host("echo login message; " + is_up + "echo out; echo err >&2; " + ends_with(3));
  const RemoteOutcome outcome = run();
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(out(), "out\n") << "what comes before is of the login, not of the job";
  EXPECT_EQ(err(), "err\n");
}

// Node 0 ends when the other's line has arrived.
TEST_F(RemoteRunnerTest, EveryHostIsStartedAndNodeZeroDecides) {
  const std::string may_end = folder_.path() + "/may_end";
  add_host(is_up + "echo zero; until [ -e " + may_end + " ]; do sleep 0.01; done; " + ends_with(0));
  add_host(is_up + "echo one; " + ends_with(0));
  const RemoteOutcome outcome = run([&](RemoteRunner&) {
    if (out().find("one\n") != std::string::npos) std::ofstream(may_end) << "now";
  });
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(out().find("zero\n"), std::string::npos) << out();
}

TEST_F(RemoteRunnerTest, TheSecretGoesAheadOfTheScript) {
  plan_.secret_line = "SECRET=s3cret\n";
  add_host(is_up + "echo the secret is $SECRET; " + ends_with(0));
  EXPECT_EQ(run().exit_code, 0);
  EXPECT_EQ(out(), "the secret is s3cret\n");
}

TEST_F(RemoteRunnerTest, ALastLineWithoutAnEndIsForwarded) {
  add_host(is_up + says(AgentMessage::Kind::end, "0") + " >&2; printf 'no end'; exit 0\n");
  EXPECT_EQ(run().exit_code, 0);
  EXPECT_EQ(out(), "no end\n");
}

TEST_F(RemoteRunnerTest, ACommandThatCannotBeRunIsTheCause) {
  add_host("", {"./no-such-ssh"});
  const RemoteOutcome outcome = run();
  EXPECT_NE(outcome.exit_code, 0);
  ASSERT_TRUE(outcome.cause);
  EXPECT_NE(outcome.cause->why.find("cannot run ./no-such-ssh"), std::string::npos) << outcome.cause->why;
}

TEST_F(RemoteRunnerTest, AHostThatEndsBeforeItIsUpIsTheCauseWithItsLastWords) {
  add_host("echo 'Permission denied' >&2; exit 255\n");
  const RemoteOutcome outcome = run();
  EXPECT_NE(outcome.exit_code, 0);
  ASSERT_TRUE(outcome.cause);
  EXPECT_NE(outcome.cause->why.find("Permission denied"), std::string::npos) << outcome.cause->why;
}

TEST_F(RemoteRunnerTest, ASignalIsALineOfTheAgentsInput) {
  add_host(is_up + "echo up; while read -r line && [ \"$line\" = alive ]; do :; done; echo \"got $line\"; " +
           ends_with(143));
  bool sent = false;
  const RemoteOutcome outcome = run([&](RemoteRunner& runner) {
    if (sent || out() != "up\n") return;
    sent = true;
    runner.on_signal(SIGTERM, true);
  });
  EXPECT_EQ(out(), "up\ngot signal 15\n");
  EXPECT_EQ(outcome.exit_code, 143);
}

TEST_F(RemoteRunnerTest, MuchOutputArrivesWhole) {
  add_host(is_up + "seq 1 100000; " + ends_with(0));
  EXPECT_EQ(run().exit_code, 0);
  const std::string all = out();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 100'000);
  EXPECT_TRUE(all.ends_with("\n99999\n100000\n"));
}

}  // namespace
}  // namespace dlaunch::launcher
