// The coordinators are servers that play their answers byte by byte.
#include "launcher/commands/endpoint_status.h"

#include <gtest/gtest.h>

#include "tests/store/client/reserved_port.h"
#include "tests/store/server/fake_server.h"

namespace dlaunch::launcher {
namespace {

using test::FakeServer;

constexpr Duration patience = std::chrono::minutes(1);

std::string reply(const std::string& body, const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
std::string view_of(const std::string& state) {
  agent::WorldView view;
  view.job = "j";
  view.state = state;
  return reply(agent::to_json(view));
}
// A server that answers its only client so, and keeps what it was asked.
struct Server {
  explicit Server(std::string answer)
      : server({[this, answer = std::move(answer)](FakeServer::Visit& visit) {
          while (request.find("\r\n\r\n") == std::string::npos) request += visit.receive_some();
          visit.send(answer);
        }}) {}
  std::string request;
  FakeServer server;
};
std::string why_not(const std::string& answer, const std::string& secret = "") {
  const Server one(answer);
  const auto view = query_endpoints({one.server.address()}, secret, patience);
  EXPECT_FALSE(view.ok());
  return view ? "" : view.error().why;
}

TEST(EndpointStatus, IsTheViewOfTheCoordinator) {
  const Server one(view_of("running"));
  const auto view = query_endpoints({one.server.address()}, "s3cret", patience);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->job, "j");
  EXPECT_EQ(view->state, "running");
  // It was written before the answer came.
  const std::string first = "GET /job HTTP/1.1\r\nHost: " + to_string(one.server.address()) + "\r\n";
  EXPECT_TRUE(one.request.starts_with(first)) << one.request;
  EXPECT_NE(one.request.find("\r\nAuthorization: Bearer s3cret\r\n"), std::string::npos) << one.request;
}

TEST(EndpointStatus, TheLeadersViewCountsMost) {
  const Server standby(view_of("standby"));
  const Server leader(view_of("gathering"));
  const test::ReservedPort nobody;
  const auto view =
      query_endpoints({nobody.address(), standby.server.address(), leader.server.address()}, "", patience);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->state, "gathering");
}

TEST(EndpointStatus, WithoutALeaderAnyViewIsBetterThanNone) {
  const Server standby(view_of("standby"));
  const test::ReservedPort nobody;
  const auto view = query_endpoints({standby.server.address(), nobody.address()}, "", patience);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->state, "standby");
}

TEST(EndpointStatus, AnErrorNamesTheLastEndpoint) {
  const test::ReservedPort first;
  const test::ReservedPort second;
  const auto view = query_endpoints({first.address(), second.address()}, "", patience);
  ASSERT_FALSE(view.ok());
  EXPECT_TRUE(view.error().message().starts_with("no job's status at " + to_string(second.address()) + ": "))
      << view.error().message();
}

TEST(EndpointStatus, EachRefusalIsExplained) {
  EXPECT_EQ(why_not(reply("", "401 Unauthorized")), "the job requires a secret");
  EXPECT_EQ(why_not(reply("", "401 Unauthorized"), "wrong"), "the job has another secret");
  EXPECT_EQ(why_not(reply("", "421 Misdirected Request")),
            "the job does not accept this host name; use its address");
  EXPECT_EQ(why_not(reply("", "404 Not Found")), "a store answers there, but no job");
}

TEST(EndpointStatus, WhatIsNoStatusIsAnError) {
  EXPECT_NE(why_not("SSH-2.0-OpenSSH_9\r\n\r\n"), "");
  EXPECT_NE(why_not(reply("[]")), "");
  EXPECT_NE(why_not(view_of("running").substr(0, 60)), "") << "the connection ends within the body";
}

TEST(EndpointStatus, ASilentServerIsGivenUp) {
  const FakeServer silent({[](FakeServer::Visit& visit) {
    while (!visit.receive_some().empty()) {
    }
  }});
  const auto view = query_endpoints({silent.address()}, "", std::chrono::milliseconds(50));
  EXPECT_FALSE(view.ok());
}

}  // namespace
}  // namespace dlaunch::launcher
