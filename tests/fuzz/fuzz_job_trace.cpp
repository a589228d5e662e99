// libFuzzer: a file that is given to `dlaunch trace`. It is rejected, or its trace is JSON with an event for
// each of its operations.
#include <string>

#include <nlohmann/json.hpp>

#include "launcher/commands/job_trace.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::launcher;

void fuzz(FuzzInput input) {
  auto node = operations_in(input.text(), "fuzz");
  if (!node) return;
  const auto trace = nlohmann::json::parse(to_trace({*node}));
  require(trace.at("traceEvents").empty() == node->operations.empty());
}

}  // namespace
