// A call that has arrived, and the way back to its caller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dlaunch/bytes.h"
#include "runtime/rpc_protocol/call_message.h"

namespace dlaunch::internal {

// Takes the answer to one call, from any thread. The first one counts. If it is dropped without an answer,
// the caller gets a failure.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void answer(codec::Bytes result) = 0;
  virtual void fail(const CallFailure& failure) = 0;
};

struct IncomingCall {
  std::uint32_t caller;  // its id
  codec::Bytes body;     // its front: for parse_request()
  std::shared_ptr<Responder> responder;
};

}  // namespace dlaunch::internal
