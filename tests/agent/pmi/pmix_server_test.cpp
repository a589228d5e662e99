#include "agent/pmi/pmix_server.h"

#include <gtest/gtest.h>

#include "store/base/base64.h"

namespace dlaunch::agent {
namespace {

// A node with the ranks 1 and 2 of four; client 2 is the process that serves PMIx.
class PmixServerTest : public ::testing::Test {
 protected:
  static constexpr int helper = 2;
  void say(int client, const std::string& line) { last_ = server_.on_bytes(client, line + "\n"); }
  void connect() {
    for (const char* rank : {"0", "1"}) say(helper, std::string("cmd=connected rank=") + rank);
  }
  void release(std::uint32_t barrier, const std::vector<PmiEntry>& entries, bool last = true) {
    last_ = server_.on_released(barrier, entries, last);
  }
  // The only action is a reply to that client.
  std::string reply(int client = helper) const {
    const auto* one = last_.size() == 1 ? std::get_if<PmiReply>(&last_.front()) : nullptr;
    return one != nullptr && one->client == client ? one->bytes : "(none)";
  }
  std::string dropped() const {
    const auto* one = last_.size() == 1 ? std::get_if<PmiDrop>(&last_.front()) : nullptr;
    return one == nullptr ? "(none)" : one->why;
  }
  std::string next() {
    say(helper, "cmd=next");
    return reply();
  }

  PmixServer server_{{"job_0", 2, 1, 4, "(vector,(0,1,1),(1,1,2),(2,1,1))", "/a b"}};
  PmiActions last_;
};

TEST_F(PmixServerTest, DescribesTheWorld) {
  say(helper, "cmd=world");
  EXPECT_EQ(reply(),
            "cmd=world name=job_0 rank=1 slots=2 size=4 mapping=(vector,(0,1,1),(1,1,2),(2,1,1)) folder=" +
                to_base64("/a b") + "\n");
}

TEST_F(PmixServerTest, ARankStartsWithItsVariablesOnceAllAreReady) {
  say(0, "cmd=variables");
  EXPECT_TRUE(last_.empty());
  say(helper, "cmd=variable rank=0 name=PMIX_RANK value=" + to_base64("1"));
  say(helper, "cmd=variable rank=1 name=PMIX_RANK value=" + to_base64("2"));
  EXPECT_TRUE(last_.empty());
  say(helper, "cmd=ready");
  EXPECT_EQ(reply(0), "cmd=variable name=PMIX_RANK value=MQ==\ncmd=start\n");
  say(1, "cmd=variables");
  EXPECT_EQ(reply(1), "cmd=variable name=PMIX_RANK value=Mg==\ncmd=start\n");
}

TEST_F(PmixServerTest, DataOfAFenceGoThroughTheBarrierAndBack) {
  say(helper, "cmd=data value=" + to_base64("abc"));
  say(helper, "cmd=data value=" + to_base64("d"));
  say(helper, "cmd=fence");
  EXPECT_EQ(last_, (PmiActions{PmiArrived{0, {{"1", to_base64("abc")}, {"1", to_base64("d")}}}}));
  EXPECT_TRUE(server_.has_waiting());
  // Pieces of two nodes, mixed: those of each stay together and in their order.
  release(0, {{"0", "MA=="}, {"1", to_base64("abc")}}, false);
  EXPECT_TRUE(last_.empty());
  release(0, {{"0", "MQ=="}, {"1", to_base64("d")}});
  EXPECT_EQ(reply(), "cmd=released\n");
  EXPECT_FALSE(server_.has_waiting());
  EXPECT_EQ(server_.barrier(), 1U);
  for (const std::string& piece :
       {std::string("MA=="), std::string("MQ=="), to_base64("abc"), to_base64("d")})
    EXPECT_EQ(next(), "cmd=data value=" + piece + "\n");
  EXPECT_EQ(next(), "cmd=end\n");
}

TEST_F(PmixServerTest, AFenceMayCarryNothing) {
  say(helper, "cmd=fence");
  EXPECT_EQ(last_, (PmiActions{PmiArrived{0, {}}}));
  release(1, {});
  EXPECT_TRUE(last_.empty()) << "of another barrier";
  release(0, {});
  EXPECT_EQ(reply(), "cmd=released\n");
  EXPECT_EQ(next(), "cmd=end\n");
}

TEST_F(PmixServerTest, RanksThatHaveNotConnectedAreLate) {
  EXPECT_FALSE(server_.has_waiting()) << "no rank uses MPI";
  say(helper, "cmd=connected rank=1");
  EXPECT_TRUE(server_.has_waiting());
  EXPECT_EQ(server_.late(), std::vector<int>{0});
  connect();
  EXPECT_FALSE(server_.has_waiting()) << "perhaps, but for none that is known";
  say(helper, "cmd=fence");
  EXPECT_TRUE(server_.has_waiting());
  EXPECT_TRUE(server_.late().empty()) << "it waits for other nodes";
}

TEST_F(PmixServerTest, ARankThatReturnsWithoutFinalizeIsWaitedFor) {
  connect();
  say(helper, "cmd=fence");
  release(0, {});
  say(helper, "cmd=finalized rank=0");
  server_.on_returned_0(0);
  EXPECT_FALSE(server_.has_waiting()) << "it had finalized";
  PmixServer other({"job_0", 2, 1, 4, ""});
  other.on_bytes(helper, "cmd=connected rank=0\ncmd=connected rank=1\n");
  other.on_returned_0(0);
  EXPECT_TRUE(other.has_waiting());
  EXPECT_EQ(other.late(), std::vector<int>{0});
}

TEST_F(PmixServerTest, ARankThatNeverUsesMpiIsNotWaitedForByRanksThatDoNot) {
  server_.on_returned_0(0);
  EXPECT_FALSE(server_.has_waiting());
  say(helper, "cmd=connected rank=1");
  EXPECT_TRUE(server_.has_waiting());
}

TEST_F(PmixServerTest, AnAbortNamesTheRank) {
  say(helper, "cmd=abort rank=1 code=7");
  EXPECT_EQ(last_, (PmiActions{PmiAborted{1, 7}}));
}

TEST_F(PmixServerTest, WithoutTheHelperNoRankStarts) {
  say(0, "cmd=variables");
  last_ = server_.on_closed(helper);
  ASSERT_EQ(last_.size(), 2U);
  EXPECT_EQ(last_[1], (PmiAction{PmiDrop{1, "the process that serves PMIx has ended"}}));
  EXPECT_TRUE(server_.on_closed(0).empty()) << "a rank that has become its program";
}

TEST_F(PmixServerTest, RanksThatHaveStartedGoOnWithoutTheHelper) {
  say(helper, "cmd=ready");
  EXPECT_TRUE(server_.on_closed(helper).empty());
}

TEST_F(PmixServerTest, WhatIsNoRequestEndsTheConnection) {
  for (const char* line : {"hello", "cmd=other", "mcmd=spawn", "cmd=connected rank=2",
                           "cmd=connected rank=-1", "cmd=abort", "cmd=data value=", "cmd=data value=!",
                           "cmd=variable rank=0 name=A=B value=", "cmd=variable rank=0 name= value="}) {
    PmixServer server({"job_0", 2, 1, 4, ""});
    const PmiActions actions = server.on_bytes(helper, std::string(line) + "\n");
    ASSERT_EQ(actions.size(), 1U) << line;
    EXPECT_TRUE(std::holds_alternative<PmiDrop>(actions.front())) << line;
    EXPECT_TRUE(server.on_bytes(helper, "cmd=world\n").empty()) << line;
  }
  say(0, "cmd=ready");
  EXPECT_EQ(dropped(), "it sent an unknown request (ready)") << "a worker is not the helper";
  say(1, std::string(5000, 'x'));
  EXPECT_EQ(dropped(), "it sent a line of more than 4096 bytes");
}

TEST_F(PmixServerTest, VariablesAndDataAreBounded) {
  const std::string value = to_base64(std::string(2700, 'v'));
  int sent = 0;
  do say(helper, "cmd=variable rank=0 name=V value=" + value);
  while (last_.empty() && ++sent < 100);
  EXPECT_EQ(sent, 18);
  PmixServer server({"job_0", 2, 1, 4, ""});
  const std::string line = "cmd=data value=" + value + "\n";
  std::size_t lines = 0;
  while (server.on_bytes(helper, line).empty()) ++lines;
  EXPECT_LE(lines * value.size(), most_pmi_bytes);
  EXPECT_GT((lines + 20) * (value.size() + 200), most_pmi_bytes);
}

}  // namespace
}  // namespace dlaunch::agent
