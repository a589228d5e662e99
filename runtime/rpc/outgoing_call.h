// A call of the program, from its bytes to what its caller gets.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "dlaunch/rpc.h"
#include "runtime/rpc/references.h"
#include "runtime/rpc/rpc_world.h"

namespace dlaunch::internal {

struct OutgoingCall {
  std::shared_ptr<const RpcWorld::Member> member;
  std::uint32_t callee;
  std::string_view function;  // for messages; lives until the process ends
  codec::Bytes request;       // without references
  std::chrono::milliseconds timeout;
  std::shared_ptr<rpc::rpc_detail::Receiver> receiver;
  std::vector<std::shared_ptr<References::Handle>> passed;  // in the request
  std::shared_ptr<References::Handle> used = {};  // whose value the call is for: lives until the end
};

// Sends the call when its references are ready.
void send(OutgoingCall call);

// The references of the message that this thread writes: RRefs add theirs. Returns those since the last call.
std::vector<std::shared_ptr<References::Handle>> take_written_handles();
void add_written_handle(std::shared_ptr<References::Handle> handle);

// While it lives, RRefs that this thread reads are found among those that have arrived.
class ReadScope {
 public:
  explicit ReadScope(const References::Arrived& arrived);
  ~ReadScope();
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;
  // Throws DistError.
  static std::shared_ptr<References::Handle> handle(const ReferenceId& id);

 private:
  const References::Arrived* const before_;
};

}  // namespace dlaunch::internal
