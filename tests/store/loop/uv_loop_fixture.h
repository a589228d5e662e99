// A loop with a listener and a connection to it: what the tests of store/loop begin with.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "store/loop/uv_loop.h"

namespace dlaunch::test {

using namespace store;

// One end of a connection; the test sets its functions.
struct End final : ConnectionHandler {
  void on_connected(ConnId conn) override {
    events += "connected ";
    if (connected) connected(conn);
  }
  void on_received(ConnId conn, ByteSpan bytes) override {
    got += as_text(bytes);
    if (received) received(conn);
  }
  void on_drained(ConnId conn) override {
    events += "drained ";
    if (drained) drained(conn);
  }
  void on_closed(ConnId conn, const ConnectionEnd& ended) override {
    events += "closed ";
    error = ended.reason;
    kind = ended.kind;
    if (closed) closed(conn);
  }
  std::function<void(ConnId)> connected;
  std::function<void(ConnId)> received;
  std::function<void(ConnId)> drained;
  std::function<void(ConnId)> closed;
  std::string got;
  std::string events;
  std::optional<Error> error;
  std::optional<CloseKind> kind;
};

struct Acceptor final : ListenerHandler {
  ConnectionHandler& on_accepted(ConnId conn, const Address& peer) override {
    last = conn;
    from = peer;
    ++count;
    if (accepted) accepted(conn);
    return end;
  }
  std::function<void(ConnId)> accepted;
  End end;
  ConnId last;
  Address from;
  int count = 0;
};

struct Alarm final : TimerHandler {
  void on_timer(TimerId) override {
    if (rings) rings();
  }
  std::function<void()> rings;
};

class UvLoopTest : public testing::Test {
 protected:
  Address listen(const std::string& host = "127.0.0.1") {
    auto listening = loop.listen({host, 0}, acceptor);
    EXPECT_TRUE(listening) << listening.error().message();
    return {host, listening->port};
  }
  ConnId connect(const Address& address, Duration patience = std::chrono::seconds(60)) {
    return loop.connect(address, loop.now() + patience, end);
  }
  std::function<void(ConnId)> stop() {
    return [this](ConnId) { loop.stop(); };
  }
  void send(ConnId conn, std::string_view bytes) { loop.send(conn, as_byte_span(bytes)); }

  // Declared first, so that the loop is destroyed before the handlers.
  Acceptor acceptor;
  End end;
  Alarm alarm;
  UvLoop loop;
};

inline std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761U >> 24U);
  return bytes;
}

}  // namespace dlaunch::test
