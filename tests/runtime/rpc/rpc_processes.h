// Workers as processes, for tests of the public calls.
#pragma once

#include <dlaunch/rpc.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>

#include "tests/runtime/rank_processes.h"
#include "tests/runtime/rpc/agents.h"

namespace dlaunch::test {

// Functions that all workers have.
inline void die() { kill(getpid(), SIGKILL); }
inline Gate may_leave;
inline void leave() { may_leave.open(); }
inline const rpc::Registration die_registration("die", die);
inline const rpc::Registration leave_registration("leave", leave);

inline std::string name_of(int rank) { return "worker" + std::to_string(rank); }

// `body` on rank 0; the others serve.
inline std::string with_rpc(int rank, const std::function<std::string()>& body,
                            const rpc::RpcOptions& options = {}) {
  rpc::init_rpc(name_of(rank), options);
  std::string said = rank == 0 ? body() : "ok";
  rpc::shutdown();
  return said;
}
inline void expect_ok(int size, const std::function<std::string()>& body,
                      const rpc::RpcOptions& options = {}) {
  expect_all_say(run_processes(size, [&](int rank) { return with_rpc(rank, body, options); }), "ok");
}
#define REQUIRE(condition) \
  if (!(condition)) return std::string("not so: " #condition)

// The worker may have left before it answers.
inline void let_leave(const char* worker) {
  try {
    rpc::rpc_sync({worker, std::chrono::milliseconds(0)}, leave);
  } catch (const DistNetworkError&) {
  }
}

template <class Error>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.reason();
  } catch (const std::exception& e) {
    return std::string("another error: ") + e.what();
  }
  return "no error";
}

}  // namespace dlaunch::test
