// A server on a network without wires, and its clients.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/server/server.h"
#include "tests/store/server/fake_network.h"
#include "tests/store/server/requests.h"

namespace dlaunch::test {

using namespace store;

struct AgentConnections final : AgentAcceptor, ConnectionHandler {
  ConnectionHandler& on_agent_connection(ConnId conn, const Address& peer) override {
    last = conn;
    from = peer;
    return *this;
  }
  void on_received(ConnId, ByteSpan bytes) override { said += as_text(bytes); }
  void on_closed(ConnId, const ConnectionEnd&) override { left = true; }
  bool end_unauthenticated(TimePoint came_before) override {
    return unauthenticated && unauthenticated(came_before);
  }

  std::function<bool(TimePoint)> unauthenticated;
  ConnId last;
  Address from;
  std::string said;
  bool left = false;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() { make({}); }

  void make(ServerOptions options) {
    server.reset();
    options.report = [this](const std::string& sentence) { reports.push_back(sentence); };
    server.emplace(network, network, network, std::move(options));
    ASSERT_TRUE(server->listen({"127.0.0.1", 29500}));
  }
  ConnId client() {
    const ConnId conn = network.arrive();
    network.give(conn, greeting);
    return conn;
  }
  std::string ask(ConnId conn, const Request& request, Dialect dialect = Dialect::v2_2) {
    network.give(conn, encoded(request, dialect));
    return network.take(conn);
  }

  FakeNetwork network;
  std::vector<std::string> reports;
  std::optional<StoreServer> server;
};

}  // namespace dlaunch::test
