// Real relays, of this build; the hosts are shells.
#include "launcher/remote/host_tree.h"

#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <map>
#include <set>

#include "store/loop/uv_loop.h"

namespace dlaunch::launcher {
namespace {

using agent::ExitStatus;

const std::string relay = "{\nexec " DLAUNCH_BUILD_DIR "/bin/dlaunch --relay=k12\n}\n";

class HostTreeTest : public testing::Test, public HostTree::Owner, public TimerHandler {
 protected:
  // `starter`: of an earlier host.
  void add_host(int starter, const std::string& script) {
    if (starter >= 0 && plan_.hosts[static_cast<std::size_t>(starter)].relay_script.empty())
      plan_.hosts[static_cast<std::size_t>(starter)].relay_script = relay;
    const std::string name = "h" + std::to_string(plan_.hosts.size());
    plan_.hosts.push_back({name, name, false, {"sh"}, "{\n" + script + "\n}\n", {}, starter});
  }
  void start() {
    plan_.key = "k12";
    tree_.emplace(plan_, poller_, *this);
    for (int node = 0; node < static_cast<int>(plan_.hosts.size()); ++node)
      ASSERT_TRUE(tree_->run(node, false).ok());
  }
  // Runs the loop until all that was started is gone, or `until` holds.
  void run(const std::function<bool()>& until = nullptr) {
    until_ = until ? until : [this] { return gone_.size() + not_run_.size() == plan_.hosts.size(); };
    deadline_ = loop_.now() + std::chrono::minutes(1);
    on_timer({});
    loop_.run();
    loop_.disarm(timer_);
    EXPECT_TRUE(until_());
  }

  void on_output(int node, Stream stream, std::string_view bytes) override {
    output_[{node, stream}].append(bytes);
  }
  void on_connection_words(int node, std::string_view words) override { words_[node].append(words); }
  void on_gone(int node, const ExitStatus& status) override { gone_.emplace_back(node, status); }
  void on_not_run(int node, const std::string& why) override { not_run_[node] = why; }
  void on_timer(TimerId) override {
    if (until_() || loop_.now() > deadline_) return loop_.stop();
    timer_ = loop_.arm(loop_.now() + std::chrono::milliseconds(5), *this);
  }

  std::string out(int node) { return output_[{node, Stream::out}]; }
  std::string err(int node) { return output_[{node, Stream::err}]; }

  RemotePlan plan_;
  UvLoop loop_;
  UvPoller poller_{loop_};
  std::optional<HostTree> tree_;
  std::map<std::pair<int, Stream>, std::string> output_;
  std::map<int, std::string> words_;
  std::vector<std::pair<int, ExitStatus>> gone_;  // in order
  std::map<int, std::string> not_run_;

 private:
  std::function<bool()> until_;
  TimePoint deadline_;
  TimerId timer_;
};

TEST_F(HostTreeTest, StreamsAndTheEndOfAProcessBehindTwoRelays) {
  add_host(-1, "exit 0");
  add_host(0, "exit 0");
  add_host(1, "echo up; read word; echo out $word; echo err $word >&2; exit 7");
  start();
  run([this] { return out(2) == "up\n" && gone_.size() == 2; });  // the relays stay while they run anything
  tree_->send(2, "in\n");
  run();
  EXPECT_EQ(out(2), "up\nout in\n");
  EXPECT_EQ(err(2), "err in\n");
  ASSERT_EQ(gone_.size(), 3U);
  EXPECT_EQ(gone_.back().first, 2);
  EXPECT_EQ(gone_.back().second, (ExitStatus{ExitStatus::How::exited, 7}));
}

TEST_F(HostTreeTest, SignalsAndTheEndOfInput) {
  add_host(-1, "exit 0");
  add_host(0, "echo up; exec sleep 1000");
  add_host(0, "echo up; read word; exit 3");
  start();
  run([this] { return out(1) + out(2) == "up\nup\n"; });
  tree_->signal(1, SIGTERM);
  tree_->end_input(2);
  run();
  const std::map<int, ExitStatus> ends(gone_.begin(), gone_.end());
  EXPECT_EQ(ends.at(1), (ExitStatus{ExitStatus::How::signaled, SIGTERM}));
  EXPECT_EQ(ends.at(2), (ExitStatus{ExitStatus::How::exited, 3}));
}

TEST_F(HostTreeTest, APausedStreamStopsAlone) {
  add_host(-1, "exit 0");
  add_host(0, "echo up; while read word; do echo out; echo err >&2; done; exit 0");
  start();
  run([this] { return out(1) == "up\n"; });
  tree_->pause(1, Stream::out, true);
  for (int i = 0; i < 3; ++i) tree_->send(1, "go\n");
  run([this] { return err(1) == "err\nerr\nerr\n"; });
  EXPECT_EQ(out(1), "up\n");
  tree_->pause(1, Stream::out, false);
  run([this] { return out(1) == "up\nout\nout\nout\n"; });
  tree_->end_input(1);
  run();
}

TEST_F(HostTreeTest, ALostRelayTakesWhatIsBehindItAndItsOwnHostIsFirst) {
  add_host(-1, "exec sleep 1000");
  add_host(-1, "echo $PPID; exec sleep 1000");
  add_host(1, "exec sleep 1000");
  add_host(2, "echo up; exec sleep 1000");
  start();
  run([this] { return !out(1).empty() && out(3) == "up\n"; });
  kill(std::stoi(out(1)), SIGKILL);  // the relay is the parent of its host's dlaunch
  run([this] { return gone_.size() == 3; });
  EXPECT_EQ(gone_[0].first, 1);
  EXPECT_EQ((std::set<int>{gone_[1].first, gone_[2].first}), (std::set<int>{2, 3}));
  EXPECT_FALSE(tree_->run(3, false).ok()) << "its starter is gone";
  EXPECT_TRUE(tree_->run(3, true).ok());
  tree_->signal(3, SIGKILL);
  tree_->signal(0, SIGKILL);
  run([this] { return gone_.size() == 5; });
}

TEST_F(HostTreeTest, AProgramThatIsMissingBehindARelay) {
  add_host(-1, "exit 0");
  add_host(0, "");
  plan_.hosts[1].command = {"./no-such-ssh", "h1", "sh"};
  start();
  run();
  EXPECT_EQ(not_run_[1], "cannot run ./no-such-ssh: No such file or directory");
}

TEST_F(HostTreeTest, WhatALoginShellWritesIsNoFrame) {
  plan_.hosts.clear();
  add_host(-1, "echo own; exit 0");
  plan_.hosts[0].relay_script = "{\necho Welcome to this host; echo a warning >&2\n" + relay + "}\n";
  add_host(0, "echo behind; exit 0");
  start();
  run();
  EXPECT_EQ(out(0), "own\n");
  EXPECT_EQ(out(1), "behind\n");
  EXPECT_EQ(words_[0], "a warning\n");
}

TEST_F(HostTreeTest, ARelayThatWritesAnythingElseIsGivenUp) {
  const std::string greeting = "printf '\\036k12 relay ";
  for (const std::string& last : {greeting + "1\\n'; echo this is no frame", greeting + "77\\n'"}) {
    gone_.clear();
    plan_.hosts.clear();
    add_host(-1, "");
    plan_.hosts[0].relay_script = "{\n" + last + "; exec sleep 1000\n}\n";
    add_host(0, "");
    start();
    run();
    EXPECT_EQ(gone_.front(), (std::pair{0, ExitStatus{ExitStatus::How::signaled, SIGKILL}})) << last;
  }
}

}  // namespace
}  // namespace dlaunch::launcher
