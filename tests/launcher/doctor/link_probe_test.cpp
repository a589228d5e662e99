#include "launcher/doctor/link_probe.h"

#include <gtest/gtest.h>

#include "launcher/doctor/probe_server.h"
#include "launcher/doctor/probe_session.h"
#include "launcher/doctor/probe_socket.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration patience = std::chrono::seconds(60);

TEST(LinkProbe, MeasuresTheWayToAServer) {
  ProbeServer server("key");
  const auto job_port = server.listen(0);
  const auto data_port = server.listen(0);
  ASSERT_TRUE(job_port && data_port);
  ASSERT_TRUE(server.start());
  const LinkMeasurement found = measure_link({"127.0.0.1", *job_port, *data_port, "key"});
  EXPECT_EQ(found.job_port.state, PortTry::State::open);
  EXPECT_EQ(found.data_port.state, PortTry::State::open);
  EXPECT_EQ(found.broke_off, "");
  EXPECT_TRUE(found.large_packets_pass);
  EXPECT_GT(found.mtu, 1000);  // of the loopback interface
  EXPECT_GT(found.latency_ns, 0);
  EXPECT_GT(found.bytes_per_second, 0);
  EXPECT_LE(std::abs(found.clock_ahead_ns), found.clock_error_ns + 1);  // it is one clock
}

TEST(LinkProbe, APortThatNobodyListensAt) {
  std::uint16_t free_port = 0;
  {
    ProbeServer server("key");
    free_port = *server.listen(0);
  }
  const LinkMeasurement found = measure_link({"127.0.0.1", 0, free_port, "key"});
  EXPECT_EQ(found.job_port.state, PortTry::State::not_tried);
  EXPECT_EQ(found.data_port, (PortTry{PortTry::State::failed, "connection refused"}));
}

TEST(LinkProbe, AServerWithAnotherKeyClosesTheConnection) {
  ProbeServer server("another key");
  const auto port = server.listen(0);
  ASSERT_TRUE(server.start());
  const LinkMeasurement found = measure_link({"127.0.0.1", 0, *port, "key"});
  EXPECT_EQ(found.data_port.state, PortTry::State::open);
  EXPECT_NE(found.broke_off, "");
  EXPECT_EQ(found.latency_ns, 0);
}

TEST(LinkProbe, AServerThatDoesNotAnswerIsGivenUp) {
  ProbeServer server("key");  // listens, but is not started
  const auto port = server.listen(0);
  const LinkMeasurement found = measure_link({"127.0.0.1", 0, *port, "key"});
  EXPECT_EQ(found.broke_off, "no answer for 3 s");
}

TEST(ProbeServer, APortInUseIsAnError) {
  ProbeServer server("key");
  const auto port = server.listen(0);
  ProbeServer other("key");
  const auto again = other.listen(*port);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::in_use);
}

TEST(ProbeServer, ServesSeveralAtOnce) {
  ProbeServer server("key");
  const auto port = server.listen(0);
  ASSERT_TRUE(server.start());
  const TimePoint deadline = steady_now() + patience;
  std::array<ProbeSocket, 3> sockets;
  for (ProbeSocket& one : sockets) {
    ASSERT_TRUE(one.connect({"127.0.0.1", *port}, deadline));
    ASSERT_TRUE(one.send("key" + request_head(2) + "a", deadline));  // not whole
  }
  for (ProbeSocket& one : sockets) {
    char answer[ProbeSession::answer_size];
    ASSERT_TRUE(one.send("b", deadline));
    EXPECT_TRUE(one.receive(answer, sizeof answer, deadline));
  }
}

}  // namespace
}  // namespace dlaunch::launcher
