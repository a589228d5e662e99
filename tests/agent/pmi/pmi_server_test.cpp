#include "agent/pmi/pmi_server.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

// A node with two of the four ranks. Each test's story: what a rank sends, and what the actions are then.
class PmiServerTest : public ::testing::Test {
 protected:
  void say(int local_rank, const std::string& line) { last_ = server_.on_bytes(local_rank, line + "\n"); }
  void release(std::uint32_t barrier, const std::vector<PmiEntry>& entries = {}, bool last = true) {
    last_ = server_.on_released(barrier, entries, last);
  }
  void init() {
    for (const int rank : {0, 1}) say(rank, "cmd=init pmi_version=1 pmi_subversion=1");
  }
  // The only action is a reply to that rank.
  std::string reply(int local_rank = 0) const {
    const auto* one = last_.size() == 1 ? std::get_if<PmiReply>(&last_.front()) : nullptr;
    return one != nullptr && one->client == local_rank ? one->bytes : "(none)";
  }
  std::string dropped() const {
    const auto* one = last_.size() == 1 ? std::get_if<PmiDrop>(&last_.front()) : nullptr;
    return one == nullptr ? "(none)" : one->why;
  }
  std::string get(const std::string& key) {
    say(0, "cmd=get kvsname=kvs key=" + key);
    return reply();
  }
  static std::string found(const std::string& value) {
    return "cmd=get_result rc=0 msg=success value=" + value + "\n";
  }

  PmiServer server_{{"kvs", 2, 0, 4, "(vector,(0,2,2))"}};
  PmiActions last_;
  const std::string missing_ = "cmd=get_result rc=-1 msg=key_not_found value=unknown\n";
  const std::string stored_ = "cmd=put_result rc=0 msg=success\n";
};

TEST_F(PmiServerTest, ReportsTheWorld) {
  say(0, "cmd=init pmi_version=1 pmi_subversion=1");
  EXPECT_EQ(reply(), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  say(0, "cmd=get_maxes");
  EXPECT_EQ(reply(), "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
  say(0, "cmd=get_appnum");
  EXPECT_EQ(reply(), "cmd=appnum appnum=0\n");
  say(0, "cmd=get_my_kvsname");
  EXPECT_EQ(reply(), "cmd=my_kvsname kvsname=kvs\n");
  say(0, "cmd=get_universe_size");
  EXPECT_EQ(reply(), "cmd=universe_size size=4\n");
  EXPECT_EQ(get("PMI_process_mapping"), found("(vector,(0,2,2))"));
  say(0, "cmd=finalize");
  EXPECT_EQ(reply(), "cmd=finalize_ack\n");
  say(0, "cmd=get_appnum");
  EXPECT_TRUE(last_.empty()) << "it has ended";
}

TEST_F(PmiServerTest, AnotherVersionIsNotOffered) {
  say(0, "cmd=init pmi_version=2 pmi_subversion=0");
  EXPECT_EQ(reply(), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
}

TEST_F(PmiServerTest, AnUnknownMappingIsNotFound) {
  PmiServer server({"kvs", 1, 0, 1, ""});
  server.on_bytes(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
  const PmiActions actions = server.on_bytes(0, "cmd=get kvsname=kvs key=PMI_process_mapping\n");
  EXPECT_EQ(actions, (PmiActions{PmiReply{0, missing_}}));
}

TEST_F(PmiServerTest, ValuesAreSeenHereAtOnceAndElsewhereAfterTheBarrier) {
  init();
  say(1, "cmd=put kvsname=kvs key=b value=2");
  EXPECT_EQ(reply(1), stored_);
  say(1, "cmd=put kvsname=kvs key=a value=1");
  EXPECT_EQ(get("a"), found("1"));
  EXPECT_EQ(get("c"), missing_);
  say(0, "cmd=barrier_in");
  EXPECT_TRUE(last_.empty());
  EXPECT_TRUE(server_.has_waiting());
  EXPECT_EQ(server_.late(), std::vector<int>{1});
  say(1, "cmd=barrier_in");
  EXPECT_EQ(last_, (PmiActions{PmiArrived{0, {{"a", "1"}, {"b", "2"}}}}));
  release(0, {{"c", "3"}}, false);
  EXPECT_TRUE(last_.empty());
  release(0, {{"a", "1"}, {"b", "2"}, {"d", "4"}});
  EXPECT_EQ(last_,
            (PmiActions{PmiReply{0, "cmd=barrier_out rc=0\n"}, PmiReply{1, "cmd=barrier_out rc=0\n"}}));
  EXPECT_FALSE(server_.has_waiting());
  EXPECT_EQ(get("c"), found("3"));
  EXPECT_EQ(get("d"), found("4"));
}

TEST_F(PmiServerTest, ABarrierCarriesOnlyWhatCameSinceTheLastOne) {
  init();
  say(0, "cmd=put kvsname=kvs key=a value=1");
  for (const int rank : {0, 1}) say(rank, "cmd=barrier_in");
  release(0);
  release(0);
  EXPECT_TRUE(last_.empty()) << "that barrier is over";
  say(0, "cmd=put kvsname=kvs key=b value=2");
  say(0, "cmd=put kvsname=kvs key=b value=3");
  for (const int rank : {0, 1}) say(rank, "cmd=barrier_in");
  EXPECT_EQ(last_, (PmiActions{PmiArrived{1, {{"b", "3"}}}}));
}

TEST_F(PmiServerTest, WhatDoesNotFitIsNotStored) {
  init();
  const std::string long_key(longest_pmi_key + 1, 'k');
  const std::string long_value(longest_pmi_value + 1, 'v');
  const auto put = [&](const std::string& rest) {
    say(0, "cmd=put " + rest);
    return reply();
  };
  EXPECT_EQ(put("kvsname=other key=a value=1"), "cmd=put_result rc=-1 msg=unknown_kvs\n");
  EXPECT_EQ(put("kvsname=kvs value=1"), "cmd=put_result rc=-1 msg=key_too_long_or_empty\n");
  EXPECT_EQ(put("kvsname=kvs value=1 key=" + long_key), "cmd=put_result rc=-1 msg=key_too_long_or_empty\n");
  EXPECT_EQ(put("kvsname=kvs key=a value=" + long_value), "cmd=put_result rc=-1 msg=value_too_long\n");
  EXPECT_EQ(get("a"), missing_);
}

TEST_F(PmiServerTest, MemoryIsBounded) {
  init();
  const PmiEntry large{"k", std::string(most_pmi_bytes, 'v')};
  release(0, {large});
  EXPECT_TRUE(last_.empty()) << "nobody waits";
  EXPECT_EQ(get("k"), missing_);
  for (const int rank : {0, 1}) say(rank, "cmd=barrier_in");
  release(1, {large}, false);
  EXPECT_EQ(last_, (PmiActions{PmiReply{0, "cmd=barrier_out rc=-1 msg=no_room\n"},
                               PmiReply{1, "cmd=barrier_out rc=-1 msg=no_room\n"}}));
}

TEST_F(PmiServerTest, AllValuesCanBeListed) {
  init();
  say(0, "cmd=put kvsname=kvs key=a value=1");
  say(0, "cmd=getbyidx kvsname=kvs idx=0");
  EXPECT_EQ(reply(), "cmd=getbyidx_results rc=0 nextidx=1 key=a val=1\n");
  for (const char* index : {"1", "-1", "x"}) {
    say(0, std::string("cmd=getbyidx kvsname=kvs idx=") + index);
    EXPECT_EQ(reply(), "cmd=getbyidx_results rc=-2 reason=no_more_keyvals\n");
  }
}

TEST_F(PmiServerTest, AnAbortHasItsCode) {
  init();
  say(0, "cmd=barrier_in");
  say(0, "cmd=abort exitcode=7 message=no data");
  EXPECT_EQ(last_, (PmiActions{PmiAborted{0, 7}})) << "also in a barrier";
  say(1, "cmd=abort");
  EXPECT_EQ(last_, (PmiActions{PmiAborted{1, 1}}));
}

TEST_F(PmiServerTest, ProcessesAreNotSpawned) {
  init();
  say(0, "mcmd=spawn\ntotspawns=2\nspawnssofar=1\narg1=cmd=finalize\nendcmd");
  EXPECT_TRUE(last_.empty()) << "one answer is for both";
  say(0, "mcmd=spawn\ntotspawns=2\nspawnssofar=2\nendcmd");
  EXPECT_EQ(reply(), "cmd=spawn_result rc=-1 msg=not_supported\n");
  say(0, "cmd=lookup_name service=x");
  EXPECT_EQ(reply(), "cmd=lookup_result rc=-1 msg=not_supported\n");
}

TEST_F(PmiServerTest, WhoBreaksTheProtocolIsDropped) {
  const auto after_init = [&](const std::string& line) {
    server_ = PmiServer({"kvs", 2, 0, 4, ""});
    init();
    say(0, line);
    const std::string why = dropped();
    say(0, "cmd=get_appnum");
    EXPECT_TRUE(last_.empty()) << "it gets no further answer";
    return why;
  };
  EXPECT_EQ(after_init("GET / HTTP/1.1"), "it sent what is no request");
  EXPECT_EQ(after_init("cmd=fly"), "it sent an unknown request (fly)");
  EXPECT_EQ(after_init("mcmd=fly"), "it sent an unknown request");
  EXPECT_EQ(after_init(std::string(longest_pmi_line + 1, 'x')), "it sent a line of more than 4096 bytes");
  server_ = PmiServer({"kvs", 2, 0, 4, ""});
  say(0, "cmd=get_maxes");
  EXPECT_EQ(dropped(), "its first request is not cmd=init");
  init();
  say(1, "cmd=barrier_in");
  say(1, "cmd=get_appnum");
  EXPECT_EQ(dropped(), "it sent a request while it waits in a barrier");
}

}  // namespace
}  // namespace dlaunch::agent
