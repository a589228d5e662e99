// The callee's side of a call, as the public headers see it.
#include <utility>

#include "dlaunch/error.h"
#include "runtime/rpc/outgoing_call.h"
#include "runtime/rpc/serve.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {
namespace rpc::rpc_detail {

bool Reply::keeps() const { return state_->kept.has_value(); }

void Reply::keep(Value value) const { state_->kept->set_value(std::move(value)); }

// References in the result are passed to the caller when they are ready.
void Reply::result(codec::Bytes bytes) const {
  std::vector<std::shared_ptr<Handle>> written = take_written_handles();
  if (written.empty()) {
    if (bytes.note) bytes.note->on_sent();
    append_references(bytes.front, {});
    return state_->responder->answer(std::move(bytes));
  }
  const auto handles = std::make_shared<std::vector<std::shared_ptr<Handle>>>(std::move(written));
  std::vector<ReferenceId> ids;
  for (const auto& handle : *handles) ids.push_back(handle->id());
  state_->references->when_ready(
      ids, [state = state_, handles, bytes = std::move(bytes)](std::exception_ptr error) {
        if (error) return state->responder->fail(failure_of(error));
        codec::Bytes message = bytes;
        if (message.note) message.note->on_sent();
        state->references->append(message.front, *handles, state->caller);
        state->responder->answer(std::move(message));
      });
}

void Reply::error(std::exception_ptr error) const {
  (void)take_written_handles();
  if (state_->kept) return state_->kept->set_exception(std::move(error));
  state_->responder->fail(failure_of(error));
}

void Reply::bad_arguments(const std::string& why) const {
  state_->responder->fail({CallFailure::Kind::bad_arguments, "", why});
  if (state_->kept) {
    state_->kept->set_exception(
        std::make_exception_ptr(DistError("the arguments of the function do not decode: " + why)));
  }
}

void Reply::begin() const {
  if (!state_->kept) return;
  std::string acknowledgement;
  append_references(acknowledgement, {});
  state_->responder->answer(std::move(acknowledgement));
}

void Reply::with_value(const HandleId& id, std::function<void(const Value& value)> use) const {
  const auto value = state_->references->value({id.owner, id.creator, id.number});
  if (!value)
    return error(std::make_exception_ptr(DistError("the value of the reference does not exist here")));
  value->then([reply = *this, use = std::move(use)](const Future<Value>& done) {
    try {
      use(done.wait());
    } catch (...) {
      reply.error(std::current_exception());
    }
  });
}

std::optional<int> Reply::find(int own) const { return state_->devices->find(state_->caller, own); }

std::string Reply::why_none(int own) const { return state_->devices->why_none(state_->caller, own); }

}  // namespace rpc::rpc_detail
}  // namespace v1
}  // namespace dlaunch
