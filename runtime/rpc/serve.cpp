#include "runtime/rpc/serve.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/rpc/call_context.h"
#include "runtime/rpc/outgoing_call.h"
#include "store/base/text.h"

namespace dlaunch::internal {

namespace {

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return name ? name.get() : type.name();
}

}  // namespace

CallFailure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return {CallFailure::Kind::exception, name_of(typeid(e)), e.what()};
  } catch (...) {
    return {CallFailure::Kind::exception, "", "an exception that is no std::exception"};
  }
}

namespace {

using rpc::rpc_detail::HandleId;
using rpc::rpc_detail::Reply;
using rpc::rpc_detail::Value;

// A call with all that it needs while it is served.
struct Served {
  ServeContext context;
  IncomingCall call;
  WithReferences parts;  // of call.body, as the next one
  CallRequest request;
  std::shared_ptr<References::Arrived> arrived;
};

void fail(const Served& served, CallFailure::Kind kind, const std::string& text) {
  served.call.responder->fail({kind, "", text});
}

void run_function(const Served& served, const CallRequest& request, const Reply& reply) {
  const FunctionTable::Function* const function = served.context.functions.find(request.head.function);
  const std::string name = quoted(request.head.function);
  const std::string self = describe(served.context.agent->self());
  const auto reject = [&](CallFailure::Kind kind, const std::string& text) {
    fail(served, kind, text);
    if (reply.keeps()) reply.error(std::make_exception_ptr(DistError(text)));
  };
  if (!function)
    return reject(CallFailure::Kind::unknown_function, self + " has registered no function " + name);
  if (function->signature != request.head.signature) {
    return reject(CallFailure::Kind::other_signature,
                  self + " has registered the function " + name +
                      " with other types of arguments or another type of result");
  }
  const ReadScope scope(*served.arrived);
  try {
    function->handler(codec::Reader(request.arguments, served.call.body.blocks), reply);
  } catch (...) {  // no memory
    reply.error(std::current_exception());
  }
}

Reply reply_to(const Served& served) {
  return Reply(std::make_shared<ReplyState>(ReplyState{served.context.references, served.context.devices,
                                                       served.call.caller, served.call.responder}));
}

// The value exists from now on; the function that makes it runs afterwards. If the call is rejected before,
// its caller drops the value.
void create(const Served& served) {
  const std::string_view bytes = served.request.arguments;
  const auto message =
      parse_reference_message(bytes.substr(0, std::min(bytes.size(), reference_message_size)));
  const auto inner = message ? parse_request(bytes.substr(reference_message_size)) : std::nullopt;
  if (!inner) return fail(served, CallFailure::Kind::bad_arguments, "the call does not decode");
  const auto promise = served.context.references->on_create(served.call.caller, message->id, message->number);
  if (!promise) return fail(served, CallFailure::Kind::exception, "its caller has given the value up");
  run_function(
      served, *inner,
      Reply(std::make_shared<ReplyState>(ReplyState{served.context.references, served.context.devices,
                                                    served.call.caller, served.call.responder, promise})));
}

void fetch(const Served& served) {
  const auto message = parse_reference_message(served.request.arguments);
  if (!message) return fail(served, CallFailure::Kind::bad_arguments, "the call does not decode");
  const Reply reply = reply_to(served);
  reply.with_value({message->id.owner, message->id.creator, message->id.number}, [reply](const Value& value) {
    if (!value.to_bytes) throw DistError("the value of the reference cannot be sent: call its members");
    (void)take_written_handles();
    reply.result(value.to_bytes(value.object.get(), reply));
  });
}

void serve_when_ready(const Served& served) {
  meet_in_context(served.request.head.context, served.context.agent->worker(served.call.caller).rank);
  const rpc::rpc_detail::CallContextScope scope(served.request.head.context);
  const std::string_view function = served.request.head.function;
  if (function == References::create_function) return create(served);
  if (function == References::fetch_function) return fetch(served);
  run_function(served, served.request, reply_to(served));
}

}  // namespace

std::string_view function_of(const IncomingCall& call) {
  const std::optional<WithReferences> parts = split_references(call.body.front);
  std::optional<CallRequest> request = parts ? parse_request(parts->rest) : std::nullopt;
  if (request && request->head.function == References::fetch_function) return "to_here";
  if (request && request->head.function == References::create_function)
    request =
        parse_request(request->arguments.substr(std::min(request->arguments.size(), reference_message_size)));
  return request ? request->head.function : std::string_view();
}

bool serve_message(References& references, const IncomingCall& call) {
  const std::optional<WithReferences> parts = split_references(call.body.front);
  const std::optional<CallRequest> request = parts ? parse_request(parts->rest) : std::nullopt;
  if (!request || request->head.function != References::message_function) return false;
  if (std::optional<std::string> result = references.on_message(call.caller, request->arguments)) {
    append_references(*result, {});
    call.responder->answer(*std::move(result));
  } else {
    call.responder->fail({CallFailure::Kind::bad_arguments, "", "the message does not decode"});
  }
  return true;
}

void serve(const ServeContext& context, IncomingCall call) {
  const auto served = std::make_shared<Served>(Served{context, std::move(call), {}, {}, {}});
  const std::optional<WithReferences> parts = split_references(served->call.body.front);
  const std::optional<CallRequest> request = parts ? parse_request(parts->rest) : std::nullopt;
  if (!request) return fail(*served, CallFailure::Kind::bad_arguments, "the call does not decode");
  served->parts = *parts;
  served->request = *request;
  served->arrived = context.references->arrive(served->call.caller, parts->references);
  if (!served->arrived) return fail(*served, CallFailure::Kind::exception, "its caller has given it up");
  if (parts->references.empty()) return serve_when_ready(*served);
  context.references->when_ready(parts->ids(), [served](const std::exception_ptr& error) {
    if (error) return served->call.responder->fail(failure_of(error));
    served->context.agent->post([served] { serve_when_ready(*served); });
  });
}

}  // namespace dlaunch::internal
