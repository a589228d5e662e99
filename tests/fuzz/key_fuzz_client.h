// A client of a store with a key that sends the given bytes in the given pieces. Shared by the fuzzer and by
// the test that runs briefly in every suite.
#pragma once

#include <cstdlib>

#include "store/protocol/key_proof.h"
#include "store/server/server.h"
#include "tests/store/server/fake_network.h"
#include "tests/store/server/requests.h"

namespace dlaunch::test {

using namespace store;

// The invariants for all `bytes`: no request is served, the memory of a connection is bounded, and a client
// that proves the key afterwards is served. `choices` selects the pieces, and whether a valid opening comes
// first.
inline void send_random_proofs(std::string_view choices, std::string_view bytes) {
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };
  std::size_t drawn = 0;
  const auto draw = [&] {
    return choices.empty() ? 0U : static_cast<unsigned char>(choices[drawn++ % choices.size()]);
  };
  const std::string key = store_key("s3cret");
  FakeNetwork network;
  ServerOptions options;
  options.key = {key, [] { return std::string(key_nonce_size, 'n'); }, {}};
  StoreServer server(network, network, network, options);
  require(server.listen({"*", 29500}).ok());

  ConnId conn = network.arrive();
  if (draw() % 2 == 0) network.give(conn, key_greeting);
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), 1 + draw());
    network.give(conn, bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (draw() % 64 == 0) network.leave(conn);
    if (network.closed(conn)) conn = network.arrive();
    require(network.take(conn).size() <= 1024);
    require(server.stats().connections_total == 0);
  }
  const KeyClient client(key, std::string(key_nonce_size, 'c'));
  const ConnId own = network.arrive();
  network.give(own, client.opening());
  network.give(own,
               *client.answer(network.take(own)) + greeting + encoded(numbered(RequestKind::add, "/n", 1)));
  require(network.take(own) == i64(1));
}

}  // namespace dlaunch::test
