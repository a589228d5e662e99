// Ranks as threads of one process, each with an endpoint of its own, connected through the loopback
// interface.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <vector>

#include "runtime/backends/gloo/tcp_transport.h"
#include "runtime/rendezvous/bootstrap.h"
#include "store/client/hash_store.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::test {

using namespace internal;

// Connected peers would miss a rank that left before all are connected: a group has a barrier against that.
inline std::vector<std::exception_ptr> connected(int size, const std::function<void(TcpTransport&)>& body) {
  const auto store = std::make_shared<HashStore>();
  std::latch all_connected(size);
  return on_threads(size, [&](int rank) {
    const auto keys = backend_store(store);
    std::unique_ptr<TcpTransport> transport;
    try {
      transport = std::make_unique<TcpTransport>(
          BackendContext{*keys, rank, size, "test", std::chrono::seconds(60), soon(), "127.0.0.1", {}},
          std::make_shared<Endpoint>("127.0.0.1"));
    } catch (...) {
      all_connected.count_down();
      throw;
    }
    all_connected.arrive_and_wait();
    body(*transport);
  });
}

}  // namespace dlaunch::test
