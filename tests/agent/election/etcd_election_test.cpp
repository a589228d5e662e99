// The election's requests as HTTP on a network whose far end, etcd, is the test.
#include "agent/election/etcd_election.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/store/server/fake_network.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration ttl = seconds(8);

const char* const lease_7 = R"({"ID":"7","TTL":"8"})";
const char* const won = R"({"header":{"revision":"5"},"succeeded":true,"responses":[{}]})";
// Another agent, "value", has had the key since revision 6.
const char* const lost =
    R"({"header":{"revision":"6"},"responses":[{"response_range":{"kvs":[{"value":"dmFsdWU="}]}}]})";
const char* const renewed = R"({"result":{"ID":"7","TTL":"8"}})";
const char* const expired = R"({"result":{"ID":"7"}})";
const char* const key_is_gone = R"({"result":{"events":[{"type":"DELETE","kv":{"key":"aw=="}}]}})";

class EtcdElectionTest : public testing::Test {
 protected:
  EtcdElectionTest() {
    EtcdElection::Config config;
    config.endpoints = {{"etcd1", 2379}, {"etcd2", 2379}};
    config.key = "k";
    config.value = "me";
    config.ttl = ttl;
    config.on_elected = [this](TimePoint until, const std::optional<std::string>& left_behind) {
      elected_until_.push_back(until);
      left_behind_ = left_behind;
    };
    config.on_deposed = [this] { ++deposed_; };
    config.on_log = [this](const LogMessage& message) { log_.push_back(message.text); };
    election_.emplace(EtcdElection::Dependencies{network_, network_, network_}, config);
  }

  // The path of the latest request; empty: none since the last call.
  std::string asked() {
    if (network_.dialled().size() == seen_) return "";
    seen_ = network_.dialled().size();
    const std::string request = network_.take(conn());
    const std::size_t body = request.find("\r\n\r\n") + 4;
    EXPECT_NE(request.find("\r\nContent-Length: " + std::to_string(request.size() - body) + "\r\n"),
              std::string::npos)
        << request;
    return request.substr(0, request.find(" HTTP/1.1\r\n"));
  }
  [[nodiscard]] ConnId conn() const { return network_.dialled().back().conn; }
  [[nodiscard]] std::string host() const { return network_.dialled().back().address.host; }
  void answer(const std::string& body, const std::string& status = "200 OK") {
    network_.give(conn(), "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\n\r\n" + body);
  }
  static std::string chunk(const std::string& bytes) {
    constexpr const char* digits = "0123456789abcdef";
    const std::string size{digits[bytes.size() / 16], digits[bytes.size() % 16]};
    return size + "\r\n" + bytes + "\r\n";
  }
  void begin_to_lead() {
    election_->begin();
    EXPECT_EQ(asked(), "POST /v3/lease/grant");
    answer(lease_7);
    EXPECT_EQ(asked(), "POST /v3/kv/txn");
    answer(won);
    EXPECT_EQ(elected_until_.size(), 1U);
  }
  // Returns the watch's connection.
  ConnId begin_to_follow() {
    election_->begin();
    answer(lease_7);
    answer(lost);
    // The lease is given back beside the watch.
    const auto& dialled = network_.dialled();
    EXPECT_EQ(dialled.size(), 4U);
    EXPECT_TRUE(network_.take(dialled[2].conn).starts_with("POST /v3/lease/revoke"));
    EXPECT_EQ(asked(), "POST /v3/watch");
    return conn();
  }

  test::FakeNetwork network_;
  std::optional<EtcdElection> election_;
  std::size_t seen_ = 0;
  std::vector<TimePoint> elected_until_;
  std::optional<std::string> left_behind_;
  int deposed_ = 0;
  std::vector<std::string> log_;
};

TEST_F(EtcdElectionTest, LeadsIfTheKeyWasFreeUntilALeasesTimeAfterItsRequest) {
  const TimePoint began = network_.now();
  election_->begin();
  EXPECT_EQ(network_.dialled().back().address, (Address{"etcd1", 2379}));
  EXPECT_EQ(asked(), "POST /v3/lease/grant");
  network_.pass(seconds(1));
  answer(lease_7);
  EXPECT_EQ(asked(), "POST /v3/kv/txn");
  EXPECT_FALSE(election_->leader());
  answer(won);
  EXPECT_EQ(elected_until_, std::vector{began + ttl});
  EXPECT_EQ(election_->leader(), "me");
  EXPECT_EQ(network_.open(), 0U) << "one connection a request";
}

TEST_F(EtcdElectionTest, AnswersMayComeInPieces) {
  election_->begin();
  const std::string reply =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(lease_7) + "0\r\n\r\n";
  for (const char byte : reply) network_.give(conn(), std::string(1, byte));
  asked();
  answer(won);
  EXPECT_EQ(elected_until_.size(), 1U);
}

TEST_F(EtcdElectionTest, ALeaderRenewsItsLease) {
  begin_to_lead();
  network_.pass(ttl / 4);
  EXPECT_EQ(asked(), "POST /v3/lease/keepalive");
  const TimePoint requested = network_.now();
  network_.pass(seconds(1));
  answer(renewed);
  EXPECT_EQ(elected_until_.back(), requested + ttl);
  EXPECT_EQ(deposed_, 0);
}

TEST_F(EtcdElectionTest, ALeaderWhoseLeaseIsOverStandsAgain) {
  begin_to_lead();
  network_.pass(ttl / 4);
  asked();
  answer(expired);
  EXPECT_EQ(deposed_, 1);
  EXPECT_FALSE(election_->leader());
  EXPECT_EQ(log_, std::vector<std::string>{"this node is no longer the leader: its lease has expired"});
  EXPECT_EQ(asked(), "POST /v3/lease/grant");
}

// etcd is asked again and again, at both endpoints, but the lease is counted here.
TEST_F(EtcdElectionTest, ALeaderThatEtcdDoesNotAnswerStopsLeadingInTime) {
  begin_to_lead();
  const TimePoint until = elected_until_.back();
  while (deposed_ == 0 && network_.now() < until) network_.pass(milliseconds(100));
  EXPECT_EQ(deposed_, 1);
  EXPECT_EQ(network_.now(), until);
  EXPECT_EQ(log_.front(), "the election at etcd: etcd1:2379: no answer within 2 s");
}

TEST_F(EtcdElectionTest, AFollowerWatchesTheKeyUntilItIsGone) {
  const ConnId watch = begin_to_follow();
  EXPECT_EQ(election_->leader(), "value");
  network_.give(watch, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                           chunk("{\"result\":{\"created\":true}}\n"));
  EXPECT_EQ(asked(), "");
  const std::string line = std::string(key_is_gone) + "\n";
  network_.give(watch, chunk(line.substr(0, 30)));
  EXPECT_EQ(election_->leader(), "value") << "half a line";
  network_.give(watch, chunk(line.substr(30)));
  EXPECT_FALSE(election_->leader());
  EXPECT_EQ(asked(), "POST /v3/lease/grant");
  EXPECT_TRUE(network_.closed(watch));
  EXPECT_TRUE(log_.empty());
}

TEST_F(EtcdElectionTest, AWatchWhoseServerWasThereIsRestartedInSilence) {
  const ConnId watch = begin_to_follow();
  network_.give(watch, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                           chunk("{\"result\":{\"created\":true}}\n"));
  network_.pass(seconds(5));
  EXPECT_EQ(asked(), "POST /v3/watch");
  EXPECT_TRUE(network_.closed(watch));
  EXPECT_EQ(host(), "etcd1");
  EXPECT_TRUE(log_.empty());
  // The second has no answer: the server is frozen.
  network_.pass(seconds(2));
  EXPECT_EQ(log_, std::vector<std::string>{"the election at etcd: etcd1:2379: no answer within 2 s"});
  network_.pass(Election::first_pause);
  EXPECT_EQ(asked(), "POST /v3/lease/grant");
  EXPECT_EQ(host(), "etcd2");
}

TEST_F(EtcdElectionTest, AWatchThatEndsOrIsMalformedIsAFailure) {
  const ConnId watch = begin_to_follow();
  answer("");
  EXPECT_TRUE(network_.closed(watch));
  EXPECT_EQ(log_, std::vector<std::string>{"the election at etcd: etcd1:2379: the watch has ended"});
  network_.pass(Election::first_pause);
  answer(lease_7);
  answer(lost);
  network_.give(conn(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("3\n"));
  ASSERT_EQ(log_.size(), 2U);
  EXPECT_TRUE(log_[1].starts_with("the election at etcd: etcd2:2379: ")) << log_[1];
}

TEST_F(EtcdElectionTest, AfterAFailureTheNextEndpointIsAskedAndThenTheFirstAgain) {
  election_->begin();
  network_.fail(conn(),
                {CloseKind::refused, {ErrorKind::network, "cannot connect to", "etcd1:2379", "refused", ""}});
  EXPECT_EQ(log_, std::vector<std::string>{"the election at etcd: etcd1:2379: refused"});
  asked();
  network_.pass(Election::first_pause);
  EXPECT_EQ(asked(), "POST /v3/lease/grant");
  EXPECT_EQ(host(), "etcd2");
  answer(R"({"error":"lease not found","code":5})", "400 Bad Request");
  EXPECT_EQ(log_.back(), "the election at etcd: etcd2:2379: lease not found");
  network_.pass(2 * Election::first_pause);
  EXPECT_EQ(asked(), "POST /v3/lease/grant");
  EXPECT_EQ(host(), "etcd1");
}

TEST_F(EtcdElectionTest, WhatIsNotHttpOrNotJsonIsAFailure) {
  election_->begin();
  network_.give(conn(), "SSH-2.0-OpenSSH\r\n\r\n");
  EXPECT_EQ(log_.size(), 1U);
  EXPECT_TRUE(network_.closed(conn()));
  network_.pass(Election::first_pause);
  answer("[]");
  EXPECT_EQ(log_.size(), 2U);
  EXPECT_TRUE(elected_until_.empty());
}

TEST_F(EtcdElectionTest, AnAnswerAfterItsTimeIsIgnored) {
  election_->begin();
  const ConnId late = conn();
  network_.pass(seconds(2));
  EXPECT_TRUE(network_.closed(late));
  asked();
  network_.pass(Election::first_pause);
  EXPECT_EQ(asked(), "POST /v3/lease/grant");
  EXPECT_EQ(host(), "etcd2");
}

TEST_F(EtcdElectionTest, ALeaderResignsAndLeavesItsRecord) {
  begin_to_lead();
  int done = 0;
  election_->resign(EtcdElection::EndingRecord{"ended", seconds(60)}, [&] { ++done; });
  EXPECT_EQ(asked(), "POST /v3/lease/grant");
  EXPECT_EQ(deposed_, 0) << "the key must hold its value while the record is written";
  answer(R"({"ID":"9","TTL":"60"})");
  EXPECT_EQ(asked(), "POST /v3/kv/txn");
  answer(won);
  EXPECT_EQ(asked(), "POST /v3/lease/revoke");
  EXPECT_EQ(deposed_, 1);
  EXPECT_EQ(done, 0) << "the key is not free yet";
  answer("{}");
  EXPECT_EQ(done, 1);
  network_.pass(seconds(10));
  EXPECT_EQ(done, 1);
}

TEST_F(EtcdElectionTest, AResignationTakesASecondAtMost) {
  begin_to_lead();
  int done = 0;
  election_->resign(EtcdElection::EndingRecord{"ended", seconds(60)}, [&] { ++done; });
  network_.pass(milliseconds(999));
  EXPECT_EQ(done, 0);
  network_.pass(milliseconds(1));
  EXPECT_EQ(done, 1);
}

TEST_F(EtcdElectionTest, ARecordThatCannotBeWrittenDoesNotKeepTheKey) {
  begin_to_lead();
  int done = 0;
  election_->resign(EtcdElection::EndingRecord{"ended", seconds(60)}, [&] { ++done; });
  asked();
  answer("[]");
  EXPECT_EQ(asked(), "POST /v3/lease/revoke");
  network_.leave(conn());
  EXPECT_EQ(done, 1);
}

TEST_F(EtcdElectionTest, AFollowerResignsAtOnce) {
  begin_to_follow();
  int done = 0;
  election_->resign(EtcdElection::EndingRecord{"ended", seconds(60)}, [&] { ++done; });
  EXPECT_EQ(done, 1);
  EXPECT_EQ(asked(), "");
}

TEST_F(EtcdElectionTest, LeavesNothingOpen) {
  begin_to_lead();
  network_.pass(ttl / 4);
  EXPECT_GT(network_.open(), 0U);
  EXPECT_GT(network_.timers(), 0U);
  election_.reset();
  EXPECT_EQ(network_.open(), 0U);
  EXPECT_EQ(network_.timers(), 0U);
}

}  // namespace
}  // namespace dlaunch::agent
