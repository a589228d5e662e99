#include "agent/node/agent_link.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "tests/store/server/fake_network.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

const std::string nonce_a(nonce_size, 'a');
const std::string nonce_b(nonce_size, 'b');

class Log final : public Reporter {
 public:
  void report(const LogMessage& message) override { lines.push_back(message.text); }
  std::vector<std::string> lines;
};

// The coordinator's end: MemberLinks over a network whose far end is the test.
class MemberLinkTest : public ::testing::Test, public ListenerHandler {
 protected:
  ConnectionHandler& on_accepted(ConnId conn, const Address& peer) override {
    MemberLink::Config config{network_, log_,
                              secret_.empty() ? std::function<void(const std::string&)>()
                                              : [this](const std::string& host) { proved_.push_back(host); },
                              [this](std::vector<CoordinatorEvent> events, bool over) {
                                if (over) link_.reset();
                                for (CoordinatorEvent& event : events) events_.push_back(std::move(event));
                              }};
    link_ = std::make_unique<MemberLink>(std::move(config), MemberLink::Peer{7, conn, peer, network_.now()},
                                         CoordinatorHandshake(secret_, secret_.empty() ? "" : nonce_b));
    return *link_;
  }
  void connect() {
    (void)network_.listen({"", 29500}, *this);
    conn_ = network_.arrive({"10.0.0.9", 40000});
    network_.give(conn_, greeting);
  }
  void give(const Message& message) { network_.give(conn_, encode(message)); }
  std::optional<Message> sent() {
    FrameReader reader = FrameReader::from_coordinator();
    reader.append(as_byte_span(network_.take(conn_)));
    auto message = reader.next();
    return message ? std::move(*message) : std::nullopt;
  }
  template <class E>
  const E& event(std::size_t i) const {
    return std::get<E>(events_.at(i));
  }

  test::FakeNetwork network_;
  Log log_;
  std::string secret_;
  ConnId conn_;
  std::unique_ptr<MemberLink> link_;
  std::vector<CoordinatorEvent> events_;
  std::vector<std::string> proved_;
};

TEST_F(MemberLinkTest, MessagesBecomeEventsInOrder) {
  connect();
  EXPECT_FALSE(link_->is_proven());
  network_.give(conn_, encode(Done{1}) + encode(Stopped{1}));
  ASSERT_EQ(events_.size(), 2U);
  EXPECT_EQ(event<FromMember>(0).message, Message(Done{1}));
  EXPECT_EQ(event<FromMember>(1).message, Message(Stopped{1}));
  EXPECT_EQ(event<FromMember>(1).member, 7U);
  EXPECT_TRUE(link_->is_proven());
}

TEST_F(MemberLinkTest, MemberThatProvesTheSecretIsReported) {
  secret_ = "s";
  connect();
  MemberHandshake member("s", nonce_a);
  give(member.hello());
  const auto challenge = sent();
  ASSERT_TRUE(challenge);
  EXPECT_FALSE(link_->is_proven());
  give(*member.answer(std::get<Challenge>(*challenge)));
  EXPECT_EQ(proved_, std::vector<std::string>{"10.0.0.9"});
  EXPECT_TRUE(link_->is_proven());
  EXPECT_TRUE(events_.empty());
  link_->report_proof();
  EXPECT_EQ(proved_.size(), 2U);
}

TEST_F(MemberLinkTest, MemberWithoutTheSecretLearnsNoReason) {
  secret_ = "s";
  connect();
  give(Done{1});
  EXPECT_EQ(sent(), Message(Refused{bare_refusal}));
  ASSERT_EQ(events_.size(), 2U);
  EXPECT_TRUE(event<AgentRefused>(0).why.starts_with("this job has a secret")) << event<AgentRefused>(0).why;
  EXPECT_EQ(event<MemberLost>(1).member, 7U);
  EXPECT_EQ(link_, nullptr);
  ASSERT_EQ(log_.lines.size(), 1U);
  EXPECT_TRUE(log_.lines[0].starts_with("refused an agent at 10.0.0.9:40000: ")) << log_.lines[0];
  EXPECT_TRUE(proved_.empty());
}

TEST_F(MemberLinkTest, WhatCameBeforeAMalformedMessageIsDeliveredFirst) {
  connect();
  network_.give(conn_, encode(Done{1}) + std::string("\x01\x00\x00\x00\xff", 5));
  ASSERT_EQ(events_.size(), 3U);
  EXPECT_EQ(event<FromMember>(0).message, Message(Done{1}));
  EXPECT_TRUE(std::holds_alternative<AgentRefused>(events_[1]));
  EXPECT_EQ(event<MemberLost>(2).loss.kind, LossKind::cut);
}

TEST_F(MemberLinkTest, ClosedConnectionIsALossOfItsKind) {
  connect();
  network_.leave(conn_);
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_EQ(event<MemberLost>(0).loss.why, "closed by the peer");
  EXPECT_EQ(event<MemberLost>(0).loss.kind, LossKind::closed);
}

// The node's end: what the network reports is given to the link directly.
class CoordinatorLinkTest : public ::testing::Test, public ListenerHandler {
 protected:
  ConnectionHandler& on_accepted(ConnId, const Address&) override { return link_; }
  void connect() {
    (void)network_.listen({"", 29500}, *this);
    conn_ = network_.arrive();
    link_.on_connected(conn_);
  }
  void give(const Message& message) { network_.give(conn_, encode(message)); }
  template <class E>
  const E& event(std::size_t i) const {
    return std::get<E>(events_.at(i));
  }

  test::FakeNetwork network_;
  std::string secret_;
  ConnId conn_;
  std::vector<MemberEvent> events_;
  CoordinatorLink link_{network_, [this] { return MemberHandshake(secret_, secret_.empty() ? "" : nonce_a); },
                        [this](std::vector<MemberEvent> events) {
                          for (MemberEvent& event : events) events_.push_back(std::move(event));
                        }};
};

TEST_F(CoordinatorLinkTest, IsUpAtOnceWithoutASecret) {
  connect();
  EXPECT_EQ(network_.take(conn_), greeting);
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<LinkUp>(events_[0]));
  network_.give(conn_, encode(Welcome{}) + encode(Notice{"n"}));
  ASSERT_EQ(events_.size(), 3U);
  EXPECT_EQ(event<FromCoordinator>(2).message, Message(Notice{"n"}));
}

TEST_F(CoordinatorLinkTest, RefusalWithoutAReasonIsExplained) {
  connect();
  give(Refused{bare_refusal});
  ASSERT_EQ(events_.size(), 2U);
  EXPECT_EQ(std::get<Refused>(event<FromCoordinator>(1).message).why, explain_bare_refusal(false));
}

TEST_F(CoordinatorLinkTest, MalformedMessageClosesTheConnection) {
  connect();
  network_.give(conn_, std::string("\x01\x00\x00\x00\xff", 5));
  ASSERT_EQ(events_.size(), 2U);
  EXPECT_EQ(event<LinkDown>(1).loss.kind, LossKind::cut);
  EXPECT_EQ(event<LinkDown>(1).loss.why, "malformed agent message: unknown kind 255");
  EXPECT_TRUE(network_.closed(conn_));
}

// Each text belongs to another kind.
TEST_F(CoordinatorLinkTest, KindOfTheEndDecidesWhateverItsText) {
  const auto loss = [&](CloseKind kind, const char* why) {
    link_.on_closed(conn_, {kind, {ErrorKind::network, "lost the connection to", "a:1", why, ""}});
    return std::get<LinkDown>(events_.back()).loss;
  };
  connect();
  EXPECT_EQ(loss(CloseKind::closed_by_peer, "no answer").kind, LossKind::closed);
  EXPECT_EQ(loss(CloseKind::timed_out, "closed by the peer").kind, LossKind::silent);
  EXPECT_EQ(loss(CloseKind::unreachable, "closed by the peer").kind, LossKind::silent);
  for (const CloseKind kind : {CloseKind::rejected, CloseKind::failed})
    EXPECT_EQ(loss(kind, "closed by the peer").kind, LossKind::cut);
  for (const CloseKind kind : {CloseKind::reset, CloseKind::refused})
    EXPECT_EQ(loss(kind, "closed by the peer").kind, LossKind::broken);
  EXPECT_EQ(loss(CloseKind::reset, "some reason").why, "some reason");
  EXPECT_EQ(loss(CloseKind::reset, "").why, "lost the connection to a:1");
}

}  // namespace
}  // namespace dlaunch::agent
