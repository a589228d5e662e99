// A client of the store's port that sends the given bytes in the given pieces. Shared by the fuzzer and by
// the test that runs briefly in every suite.
#pragma once

#include <cstdlib>

#include "store/server/server.h"
#include "tests/store/server/fake_network.h"
#include "tests/store/server/requests.h"

namespace dlaunch::test {

using namespace store;

// The invariants for all `bytes`: no crash, the memory is bounded by the bytes sent, and a later client is
// served. `choices` selects the peer's dialect, the pieces, and when a client leaves.
inline void send_random_requests(std::string_view choices, std::string_view bytes) {
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };
  std::size_t drawn = 0;
  const auto draw = [&] {
    return choices.empty() ? 0U : static_cast<unsigned char>(choices[drawn++ % choices.size()]);
  };

  FakeNetwork network;
  ServerOptions options;
  options.old_clients = static_cast<OldClients>(draw() % 3);
  options.limits.total_bytes = 1 << 20;
  StoreServer server(network, network, network, options);
  require(server.listen({"127.0.0.1", 29500}).ok());

  ConnId conns[] = {network.arrive(), network.arrive()};
  if (draw() % 2 == 0) network.give(conns[1], greeting);
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), 1 + draw());
    ConnId& conn = conns[draw() % 2];
    network.give(conn, bytes.substr(0, size));
    bytes.remove_prefix(size);
    const unsigned event = draw();
    if (event % 16 == 0) network.pass(std::chrono::seconds(1));
    if (event % 64 == 1) network.leave(conn);
    if (event % 64 == 2) network.stop_reading(conn);
    if (event % 64 == 3) network.read_again(conn);
    if (event % 64 == 4) network.take_some(conn, draw());
    if (event % 64 == 5) network.fail_sends(1);
    if (event == 6) network.pass(options.limits.unread_time);
    if (event == 4) server.new_round();
    if (network.closed(conn)) conn = network.arrive();
    const StoreStats stats = server.stats();
    require(stats.bytes <= options.limits.total_bytes + (1 << 16));
    require(stats.waiting <= stats.connections);
  }
  network.fail_sends(0);
  server.new_round();
  const ConnId client = network.arrive();
  network.give(client, greeting + encoded(numbered(RequestKind::add, "/n", 1)));
  require(network.take(client) == i64(1));
  for (const ConnId conn : conns) network.leave(conn);
  network.leave(client);
  require(server.stats().connections == 0);
}

}  // namespace dlaunch::test
