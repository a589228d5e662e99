#include <exception>
#include <utility>

#include "dlaunch/rpc.h"
#include "dlaunch/rpc_context.h"
#include "dlaunch/rpc_info.h"
#include "runtime/rpc/function_table.h"
#include "runtime/rpc/outgoing_call.h"
#include "runtime/rpc/rpc_world.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

RemoteError::RemoteError(const std::string& reason, std::string worker, std::string type, std::string text)
    : DistError(reason), worker_(std::move(worker)), type_(std::move(type)), text_(std::move(text)) {}
RemoteError::~RemoteError() = default;

namespace rpc {

void RpcOptions::set_device_map(const std::string& to, const std::map<int, int>& map) {
  std::map<int, int>& all = device_maps[to];
  for (const auto& [own, theirs] : map) {
    const auto [before, is_new] = all.emplace(own, theirs);
    if (is_new || before->second == theirs) continue;
    throw DistError("the device map for worker " + to + " has device " + std::to_string(before->second) +
                    " for device " + std::to_string(own) + " already, and not " + std::to_string(theirs));
  }
}

namespace {

// Memory that is taken for the arguments of a call at once, in bytes.
constexpr std::size_t usual_arguments = 64;

WorkerInfo info_of(const WorkerContact& worker) { return {worker.name, static_cast<int>(worker.rank)}; }

}  // namespace

void init_rpc(const std::string& name, const RpcOptions& options) { RpcWorld::get().init(name, options); }

void shutdown(bool graceful, std::chrono::milliseconds timeout) {
  RpcWorld::get().shutdown(graceful, timeout);
}

WorkerInfo get_worker_info() { return info_of(RpcWorld::get().member("get_worker_info")->agent->self()); }

WorkerInfo get_worker_info(std::string_view name) {
  return info_of(RpcWorld::get().member("get_worker_info")->present_worker(name));
}

std::vector<WorkerInfo> get_worker_infos() {
  std::vector<WorkerInfo> all;
  for (const WorkerContact& worker : RpcWorld::get().member("get_worker_infos")->all()) {
    all.push_back(info_of(worker));
  }
  return all;
}

DebugInfo get_debug_info() { return RpcWorld::get().member("get_debug_info")->agent->log().info(); }

namespace rpc_detail {

Receiver::~Receiver() = default;
void Receiver::set_helper(std::shared_ptr<future_detail::Helper>) {}

void add_function(std::string_view name, std::uint64_t signature, std::string_view pointer, Handler handler) {
  FunctionTable::get().add(name, {signature, std::string(pointer), std::move(handler)});
}

std::string_view name_of_function(std::string_view pointer) {
  if (const auto name = FunctionTable::get().name_of(pointer)) return *name;
  throw DistError("the function is not registered: add DLAUNCH_RPC(its name) beside it");
}

std::string name_of_worker(const Destination& to) {
  return to.id() < 0 ? to.name() : RpcWorld::get().member("rpc")->destination(to).name;
}

std::string begin_request(std::string_view name, std::uint64_t signature) {
  (void)take_written_handles();  // of a message that was not completed
  return to_bytes(CallHead{name, signature, call_context()}, usual_arguments);
}

void call(const Destination& to, std::string_view name, codec::Bytes request,
          std::shared_ptr<Receiver> receiver) {
  auto member = RpcWorld::get().member("rpc");
  const std::uint32_t callee = member->destination(to).id;
  const std::chrono::milliseconds timeout = member->timeout_of(to.timeout());
  receiver->set_helper(member->agent->helper(callee));
  send(OutgoingCall{std::move(member), callee, name, std::move(request), timeout, std::move(receiver),
                    take_written_handles()});
}

// After shutdown there is no worker thread any more.
void run_callback(std::function<void()> callback) {
  std::shared_ptr<const RpcWorld::Member> member;
  try {
    member = RpcWorld::get().member("rpc");
  } catch (const DistError&) {
    return callback();
  }
  member->agent->post(std::move(callback));
}

}  // namespace rpc_detail
}  // namespace rpc
}  // namespace v1
}  // namespace dlaunch
