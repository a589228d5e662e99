// A worker of two that calls the other one with long arguments, for rpc_hosts_test.py. Rank 1 serves until
// rank 0 leaves or it is killed. Rank 0 writes "connected" when such arguments have connections of their own,
// then calls until "end" comes on its standard input, or a call fails: it writes why.
#include <dlaunch/rpc.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/runtime/rpc/tcp_connections.h"

namespace {

std::size_t take(std::span<const float> values) { return values.size(); }
DLAUNCH_RPC(take);
int add(int a, int b) { return a + b; }
DLAUNCH_RPC(add);

// A call that is under way all the time: one that ends with its connection.
dlaunch::Promise<int> released;
dlaunch::Future<int> wait_for_release() { return released.future(); }
DLAUNCH_RPC(wait_for_release);
void release() { released.set_value(1); }
DLAUNCH_RPC(release);

bool is_to_end() {
  pollfd input{0, POLLIN, 0};
  return poll(&input, 1, 0) == 1 && (input.revents & POLLIN) != 0;
}

void call() {
  const std::vector<float> values(std::size_t{8} << 20U, 1.F);
  const auto waiting = dlaunch::rpc::rpc_async({"worker1", std::chrono::milliseconds(0)}, wait_for_release);
  bool is_connected = false;
  while (!waiting.done() && !is_to_end()) {
    const auto length = dlaunch::rpc::rpc_async("worker1", take, values);
    if (dlaunch::rpc::rpc_sync("worker1", add, 2, 3) != 5 || length.wait() != values.size()) std::abort();
    if (is_connected || dlaunch::test::tcp_connections_of_this_process() < 5) continue;
    is_connected = true;
    std::printf("connected\n");
    std::fflush(stdout);
  }
  if (!waiting.done()) dlaunch::rpc::rpc_sync("worker1", release);
  waiting.wait();
}

}  // namespace

int main() {
  const std::string rank = std::getenv("RANK");
  dlaunch::rpc::init_rpc("worker" + rank);
  try {
    if (rank == "0") call();
    dlaunch::rpc::shutdown();
    std::printf("right\n");
  } catch (const dlaunch::DistError& e) {
    std::printf("%s\n", e.what());
  }
}
