// Runs the function that a call names.
#pragma once

#include "runtime/rpc/function_table.h"
#include "runtime/rpc/request.h"
#include "runtime/rpc/worker_contact.h"

namespace dlaunch::internal {

// Answers the call, also if it is wrong. If the function returns a future, later.
void serve(const FunctionTable& functions, const WorkerContact& self, const IncomingCall& call);

// Name and text of the exception, for its caller.
CallFailure failure_of(const std::exception_ptr& error);

}  // namespace dlaunch::internal
