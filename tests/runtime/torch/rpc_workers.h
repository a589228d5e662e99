// Workers as processes, for tests of remote calls with LibTorch.
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "dlaunch/torch/rpc.h"
#include "tests/runtime/rank_processes.h"

namespace dlaunch::test {

// No test waits longer.
constexpr auto rpc_limit = std::chrono::seconds(30);

inline std::string name_of(int rank) { return "worker" + std::to_string(rank); }

// `body` on rank 0; the others serve. `options` are the ranks', by rank.
inline void expect_ok(int size, const std::function<std::string()>& body,
                      const std::vector<rpc::RpcOptions>& options = {}) {
  expect_all_say(run_processes(size,
                               [&](int rank) {
                                 at::set_num_threads(1);
                                 const auto at = static_cast<std::size_t>(rank);
                                 rpc::init_rpc(name_of(rank),
                                               at < options.size() ? options[at] : rpc::RpcOptions());
                                 std::string said = rank == 0 ? body() : "ok";
                                 rpc::shutdown();
                                 return said;
                               }),
                 "ok");
}
#define REQUIRE(condition) \
  if (!(condition)) return std::string("not so: " #condition)
// That `text` has `part`, or what it is.
#define REQUIRE_HAS(text, part)                                                \
  if (const std::string found = (text); found.find(part) == std::string::npos) \
  return std::string("no '").append(part).append("' in: ").append(found)

// The text of what `call` throws.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace dlaunch::test
