// Remote references, as the public header sees them.
#include <utility>

#include "dlaunch/error.h"
#include "dlaunch/rpc_context.h"
#include "dlaunch/rref.h"
#include "runtime/rpc/outgoing_call.h"
#include "runtime/rpc/rpc_world.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {
namespace rpc::rpc_detail {

namespace {

const Handle& valid(const std::shared_ptr<Handle>& handle) {
  if (!handle) throw DistError("the RRef refers to no value");
  return *handle;
}

// What becomes of the request to create a value.
class CreationReceiver final : public Receiver {
 public:
  explicit CreationReceiver(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}
  void on_result(codec::Reader) override { handle_->references().confirmed(handle_->id(), nullptr); }
  void on_error(std::exception_ptr error) override { handle_->references().confirmed(handle_->id(), error); }

 private:
  const std::shared_ptr<Handle> handle_;
};

std::string request_of(std::string_view function, const std::string& message) {
  return to_bytes(CallHead{function, 0, call_context()}) + message;
}

}  // namespace

std::shared_ptr<Handle> own_value(Value value) {
  return RpcWorld::get().member("RRef")->references->own(std::move(value));
}

std::shared_ptr<Handle> create_value(const Destination& to, std::string_view name, codec::Bytes request) {
  const auto member = RpcWorld::get().member("remote");
  const std::uint32_t owner = member->destination(to).id;
  const std::chrono::milliseconds timeout = member->timeout_of(to.timeout());
  std::string message;
  std::shared_ptr<Handle> handle = member->references->create_at(owner, message);
  request.front = request_of(References::create_function, message + request.front);
  send(OutgoingCall{member, owner, name, std::move(request), timeout,
                    std::make_shared<CreationReceiver>(handle), take_written_handles()});
  return handle;
}

std::shared_ptr<void> local_object(const std::shared_ptr<Handle>& handle) {
  const auto value = valid(handle).references().value(handle->id());
  if (!value) {
    throw DistError("the value of the RRef lives in worker " + owner_of(handle).name +
                    ": only its owner has a local value; use to_here()");
  }
  return value->wait().object;
}

void fetch_value(const std::shared_ptr<Handle>& handle, Destination::Timeout timeout,
                 std::shared_ptr<Receiver> receiver) {
  const auto member = RpcWorld::get().member("to_here");
  const ReferenceId& id = valid(handle).id();
  send(OutgoingCall{member,
                    id.owner,
                    "to_here",
                    request_of(References::fetch_function, to_bytes(ReferenceMessage{.id = id})),
                    member->timeout_of(timeout),
                    std::move(receiver),
                    {},
                    handle});
}

void call_member(const std::shared_ptr<Handle>& handle, Destination::Timeout timeout, std::string_view name,
                 codec::Bytes request, std::shared_ptr<Receiver> receiver) {
  const auto member = RpcWorld::get().member("rpc");
  send(OutgoingCall{member, valid(handle).id().owner, name, std::move(request), member->timeout_of(timeout),
                    std::move(receiver), take_written_handles(), handle});
}

WorkerInfo owner_of(const std::shared_ptr<Handle>& handle) {
  const WorkerContact& owner = RpcWorld::get().member("RRef")->worker_with(valid(handle).id().owner);
  return {owner.name, static_cast<int>(owner.rank)};
}

bool is_confirmed(const std::shared_ptr<Handle>& handle) {
  const Future<void> ready = valid(handle).references().ready(handle->id());
  return ready.done() && !ready.exception();
}

HandleId id_of(const std::shared_ptr<Handle>& handle) {
  const ReferenceId& id = valid(handle).id();
  return {id.owner, id.creator, id.number};
}

HandleId write_handle(const std::shared_ptr<Handle>& handle) {
  add_written_handle(handle);
  return id_of(handle);
}

std::shared_ptr<Handle> read_handle(const HandleId& id) {
  return ReadScope::handle({id.owner, id.creator, id.number});
}

}  // namespace rpc::rpc_detail
}  // namespace v1
}  // namespace dlaunch
