// dlaunch-pmix serve: the PMIx server of a node; its agent is at descriptor 3.
// dlaunch-pmix start PROGRAM [ARGUMENT ...]: a rank's beginning.
// Both are started by dlaunch, and are of no use elsewhere.
#include <csignal>
#include <cstdio>
#include <string_view>

#include "agent/pmix/agent_connection.h"
#include "agent/pmix/pmix_host.h"
#include "agent/pmix/worker_start.h"

namespace {

constexpr int agent_descriptor = 3;

// Signals of a terminal are for dlaunch, which ends this process by closing the connection.
int serve() {
  for (const int signo : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(signo, SIG_IGN);
  dlaunch::agent::AgentConnection agent(agent_descriptor);
  return dlaunch::agent::PmixHost(agent).serve();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view task = argc > 1 ? argv[1] : "";
  if (task == "serve" && argc == 2) return serve();
  if (task == "start" && argc > 2) return dlaunch::agent::start_worker(argv + 2);
  std::fputs("dlaunch-pmix is started by dlaunch (--mpi=pmix in dlaunch(1))\n", stderr);
  return 2;
}
