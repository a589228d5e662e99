// The coordinator's end of the connection is the test.
#include "agent/node/endpoint_probe.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "agent/control/messages.h"
#include "tests/store/server/fake_network.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

const std::string member_nonce(nonce_size, 'a');
const std::string server_nonce(nonce_size, 'b');

class EndpointProbeTest : public testing::Test {
 protected:
  void probe(const std::string& secret = "") {
    probe_ = std::make_unique<EndpointProbe>(network_, "job",
                                             MemberHandshake(secret, secret.empty() ? "" : member_nonce),
                                             [this](const EndpointProbed& answer) {
                                               ++calls_;
                                               answer_ = answer;
                                               probe_.reset();  // as its owner may
                                             });
    probe_->ask(3, {"c", 29400}, network_.now() + seconds(5));
    conn_ = network_.dialled().back().conn;
  }
  void give(const Message& message) { network_.give(conn_, encode(message)); }
  static std::optional<Message> sent(const std::string& bytes) {
    FrameReader reader = FrameReader::from_member();
    reader.append(as_byte_span(bytes));
    auto message = reader.next();
    return message ? std::move(*message) : std::nullopt;
  }
  // The answer is that the endpoint does not answer as a coordinator.
  void expect_none() {
    EXPECT_EQ(calls_, 1);
    EXPECT_EQ(answer_.endpoint, 3U);
    EXPECT_FALSE(answer_.answers);
    EXPECT_FALSE(answer_.leads);
    EXPECT_TRUE(network_.closed(conn_));
  }

  test::FakeNetwork network_;
  std::unique_ptr<EndpointProbe> probe_;
  ConnId conn_;
  int calls_ = 0;
  EndpointProbed answer_;
};

TEST_F(EndpointProbeTest, AsksForItsJob) {
  probe();
  EXPECT_EQ(network_.dialled().back().address, (Address{"c", 29400}));
  EXPECT_EQ(network_.dialled().back().deadline, network_.now() + seconds(5));
  network_.answer(conn_);
  const std::string bytes = network_.take(conn_);
  ASSERT_TRUE(bytes.starts_with(greeting));
  EXPECT_EQ(sent(bytes), Message(Ask{"job"}));
  EXPECT_EQ(calls_, 0);
  Welcome welcome;
  welcome.leads = true;
  give(welcome);
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(answer_.endpoint, 3U);
  EXPECT_TRUE(answer_.answers);
  EXPECT_TRUE(answer_.leads);
  EXPECT_TRUE(network_.closed(conn_));
}

TEST_F(EndpointProbeTest, AnAnswerMayComeInPieces) {
  probe();
  network_.answer(conn_);
  Welcome welcome;
  welcome.leads = false;
  for (const char byte : encode(welcome)) network_.give(conn_, std::string(1, byte));
  EXPECT_EQ(calls_, 1);
  EXPECT_TRUE(answer_.answers);
  EXPECT_FALSE(answer_.leads);
}

TEST_F(EndpointProbeTest, ProvesTheSecretBeforeItAsks) {
  probe("s");
  network_.answer(conn_);
  const std::string hello = network_.take(conn_);
  EXPECT_EQ(hello.find(encode(Ask{"job"})), std::string::npos);
  CoordinatorHandshake coordinator("s", server_nonce);
  const auto first = sent(hello);
  ASSERT_TRUE(first);
  const auto challenge = coordinator.hear(*first);
  ASSERT_TRUE(challenge.ok() && *challenge);
  give(**challenge);
  const std::string proof = network_.take(conn_);
  EXPECT_TRUE(proof.ends_with(encode(Ask{"job"})));
  give(Welcome{});
  EXPECT_TRUE(answer_.answers);
}

TEST_F(EndpointProbeTest, ACoordinatorWithAnotherSecretIsNotBelieved) {
  probe("s");
  network_.answer(conn_);
  CoordinatorHandshake coordinator("other", server_nonce);
  const auto first = sent(network_.take(conn_));
  ASSERT_TRUE(first);
  const auto challenge = coordinator.hear(*first);
  ASSERT_TRUE(challenge.ok() && *challenge);
  give(**challenge);
  expect_none();
}

TEST_F(EndpointProbeTest, NoConnectionIsAnAnswer) {
  probe();
  network_.fail(conn_,
                {CloseKind::refused, {ErrorKind::network, "cannot connect to", "c:29400", "refused", ""}});
  expect_none();
}

TEST_F(EndpointProbeTest, SoIsItsEnd) {
  probe();
  network_.answer(conn_);
  network_.leave(conn_);
  expect_none();
}

TEST_F(EndpointProbeTest, OtherMessagesAndNoiseEndIt) {
  for (const std::string& bytes : {encode(Refused{"no"}), std::string("\x01\x00\x00\x00\xff", 5)}) {
    calls_ = 0;
    probe();
    network_.answer(conn_);
    network_.give(conn_, bytes);
    expect_none();
  }
}

TEST_F(EndpointProbeTest, ItsEndClosesTheConnectionWithoutAnAnswer) {
  probe();
  probe_.reset();
  EXPECT_TRUE(network_.closed(conn_));
  EXPECT_EQ(calls_, 0);
}

}  // namespace
}  // namespace dlaunch::agent
