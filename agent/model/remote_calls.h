// What a worker's page shows of its remote calls (store/contract/calls_page.h). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/base/bytes.h"
#include "store/contract/worker_page.h"

namespace dlaunch::agent {

struct RemoteCall {
  std::uint64_t number = 0;  // of the calls of its caller to its callee
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = 0;  // 0: it has not
  int peer = 0;               // the other worker's id
  page::Call::State state = page::Call::none;
  bool is_served = false;  // by this worker; the other one has made it
  std::string function;
  std::string worker;  // the other one

  [[nodiscard]] bool is_open() const { return page::Call::is_open(state); }
};

struct RemoteCalls {
  int id = -1;  // of this worker; -1: it has no remote calls
  std::string worker;
  page::CallCounts counts{};
  std::vector<RemoteCall> calls;  // in the order in which they began

  // The call under way that began first; nullptr: there is none.
  [[nodiscard]] const RemoteCall* oldest_open(bool is_served) const;
  // For whose answer a thread waits; nullptr: none does.
  [[nodiscard]] const RemoteCall* awaited() const;
};

// Of two copies of a page, read one after the other. REQUIRES: both have a page's size.
RemoteCalls parse_remote_calls(ByteSpan first, ByteSpan second);

// "queued", "running"
std::string_view describe(page::Call::State state);
// "waits for the answer of worker ps to 'add'", "runs 'add' for worker trainer"; empty: neither.
std::string describe_state(const RemoteCalls& calls);

}  // namespace dlaunch::agent
