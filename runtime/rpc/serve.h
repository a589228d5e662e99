// Runs what a call asks for: a function of the program, or what the workers need for their references.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

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

// A call has arrived. Returns the function of the program that it is for, for messages; empty: it does not
// decode. None: it is a message between the workers' References, and answered. Does not block.
std::optional<std::string_view> on_arrival(References& references, const IncomingCall& call);

// Name and text of the exception, for its caller.
CallFailure failure_of(const std::exception_ptr& error);

// Where the result of a call goes: to the caller, or into a value that this worker keeps.
struct ReplyState {
  ReplyState(std::shared_ptr<References> its_references, std::shared_ptr<CallerDevices> its_devices,
             std::uint32_t its_caller, std::shared_ptr<Responder> its_responder,
             std::optional<Promise<References::Value>> its_kept = {})
      : references(std::move(its_references)),
        devices(std::move(its_devices)),
        caller(its_caller),
        responder(std::move(its_responder)),
        kept(std::move(its_kept)) {}

  std::shared_ptr<References> references;
  std::shared_ptr<CallerDevices> devices;
  std::uint32_t caller;
  std::shared_ptr<Responder> responder;
  // The result is kept here; the responder acknowledges that it is created.
  std::optional<Promise<References::Value>> kept;
};

}  // namespace dlaunch::internal
