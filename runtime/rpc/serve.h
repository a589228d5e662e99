// Runs what a call asks for: a function of the program, or what the workers need for their references.
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "dlaunch/future.h"
#include "runtime/rpc/device_maps.h"
#include "runtime/rpc/function_table.h"
#include "runtime/rpc/references.h"
#include "runtime/rpc/request.h"
#include "runtime/rpc/worker_contact.h"

namespace dlaunch::internal {

struct ServeContext {
  const FunctionTable& functions;
  std::shared_ptr<Agent> agent;
  std::shared_ptr<References> references;
  std::shared_ptr<CallerDevices> devices;
};

// Answers the call, also if it is wrong. If the function returns a future, or a reference among its arguments
// is not ready, later.
void serve(const ServeContext& context, IncomingCall call);

// The same if the call is a message between the workers' References; else false. Does not block.
bool serve_message(References& references, const IncomingCall& call);

// The function of the program that the call is for, for messages; empty: it does not decode.
std::string_view function_of(const IncomingCall& call);

// Name and text of the exception, for its caller.
CallFailure failure_of(const std::exception_ptr& error);

// Where the result of a call goes: to the caller, or into a value that this worker keeps.
struct ReplyState {
  std::shared_ptr<References> references;
  std::shared_ptr<CallerDevices> devices;
  std::uint32_t caller;
  std::shared_ptr<Responder> responder;
  // The result is kept here; the responder acknowledges that it is created.
  std::optional<Promise<References::Value>> kept = {};
};

}  // namespace dlaunch::internal
