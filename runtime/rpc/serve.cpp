#include "runtime/rpc/serve.h"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "store/base/text.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {
namespace rpc::rpc_detail {

struct Reply::State {
  std::shared_ptr<Responder> responder;
};

void Reply::result(std::string bytes) const { state_->responder->answer(std::move(bytes)); }
void Reply::error(std::exception_ptr error) const { state_->responder->fail(failure_of(error)); }
void Reply::bad_arguments(const std::string& why) const {
  state_->responder->fail({CallFailure::Kind::bad_arguments, "", why});
}

}  // namespace rpc::rpc_detail
}  // namespace v1
}  // namespace dlaunch

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

void serve(const FunctionTable& functions, const WorkerContact& self, const IncomingCall& call) {
  const std::optional<CallRequest> request = parse_request(call.body);
  if (!request)
    return call.responder->fail({CallFailure::Kind::bad_arguments, "", "the call does not decode"});
  const FunctionTable::Function* const function = functions.find(request->head.function);
  const std::string name = quoted(request->head.function);
  if (!function) {
    return call.responder->fail(
        {CallFailure::Kind::unknown_function, "", describe(self) + " has registered no function " + name});
  }
  if (function->signature != request->head.signature) {
    return call.responder->fail({CallFailure::Kind::other_signature, "",
                                 describe(self) + " has registered the function " + name +
                                     " with other types of arguments or another type of result"});
  }
  const rpc::rpc_detail::Reply reply(
      std::make_shared<rpc::rpc_detail::Reply::State>(rpc::rpc_detail::Reply::State{call.responder}));
  try {
    function->handler(request->arguments, reply);
  } catch (...) {  // no memory
    reply.error(std::current_exception());
  }
}

}  // namespace dlaunch::internal
