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
  const ServeContext& context;
  IncomingCall call;
  WithReferences parts;  // of call.body, as the next one
  CallRequest request;
  std::shared_ptr<References::Arrived> arrived;
};

void fail(const Served& served, CallFailure::Kind kind, const std::string& text) {
  served.call.responder->fail({kind, "", text});
}

// Also where its result would be kept.
void reject(const Served& served, const Reply& reply, CallFailure::Kind kind, const std::string& text) {
  fail(served, kind, text);
  if (reply.keeps()) reply.error(std::make_exception_ptr(DistError(text)));
}

void run_function(const Served& served, const CallRequest& request, const Reply& reply) {
  const FunctionTable::Function* const function = served.context.functions.find(request.head.function);
  if (!function || function->signature != request.head.signature) {
    const std::string name = quoted(request.head.function);
    const std::string self = describe(served.context.agent->self());
    if (!function)
      return reject(served, reply, CallFailure::Kind::unknown_function,
                    self + " has registered no function " + name);
    return reject(served, reply, CallFailure::Kind::other_signature,
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
  return Reply(std::make_shared<ReplyState>(served.context.references, served.context.devices,
                                            served.call.caller, served.call.responder));
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
  run_function(served, *inner,
               Reply(std::make_shared<ReplyState>(served.context.references, served.context.devices,
                                                  served.call.caller, served.call.responder, promise)));
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

void serve_message(References& references, const IncomingCall& call, const CallRequest& request) {
  if (std::optional<std::string> result = references.on_message(call.caller, request.arguments)) {
    append_references(*result, {});
    call.responder->answer(*std::move(result));
  } else {
    call.responder->fail({CallFailure::Kind::bad_arguments, "", "the message does not decode"});
  }
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

namespace {

// Of the call's body; they refer to it. False: it does not decode.
bool parse(Served& served) {
  std::optional<WithReferences> parts = split_references(served.call.body.front);
  const std::optional<CallRequest> request = parts ? parse_request(parts->rest) : std::nullopt;
  if (!request) return false;
  served.parts = *std::move(parts);
  served.request = *request;
  return true;
}

// A call whose references are not ready yet.
struct Later {
  Later(const ServeContext& its_context, Served from)
      : context(its_context), served{context, std::move(from.call), {}, {}, std::move(from.arrived)} {
    (void)parse(served);  // its body has moved
  }
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

  const ServeContext context;
  Served served;
};

}  // namespace

std::optional<std::string_view> on_arrival(References& references, const IncomingCall& call) {
  const std::optional<WithReferences> parts = split_references(call.body.front);
  std::optional<CallRequest> request = parts ? parse_request(parts->rest) : std::nullopt;
  if (!request) return "";
  const std::string_view function = request->head.function;
  if (function == References::message_function) {
    serve_message(references, call, *request);
    return std::nullopt;
  }
  if (function == References::fetch_function) return "to_here";
  if (function == References::create_function) {
    const std::string_view all = request->arguments;
    request = parse_request(all.substr(std::min(all.size(), reference_message_size)));
  }
  return request ? request->head.function : std::string_view();
}

void serve(const ServeContext& context, IncomingCall call) {
  Served served{context, std::move(call), {}, {}, {}};
  if (!parse(served)) return fail(served, CallFailure::Kind::bad_arguments, "the call does not decode");
  served.arrived = context.references->arrive(served.call.caller, served.parts.references);
  if (!served.arrived) return fail(served, CallFailure::Kind::exception, "its caller has given it up");
  if (served.parts.references.empty()) return serve_when_ready(served);
  const auto later = std::make_shared<Later>(context, std::move(served));
  context.references->when_ready(later->served.parts.ids(), [later](const std::exception_ptr& error) {
    if (error) return later->served.call.responder->fail(failure_of(error));
    later->context.agent->post([later] { serve_when_ready(later->served); });
  });
}

}  // namespace dlaunch::internal
