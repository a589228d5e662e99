#include <exception>
#include <utility>

#include "dlaunch/rpc.h"
#include "runtime/rpc/function_table.h"
#include "runtime/rpc/rpc_world.h"
#include "store/base/overloaded.h"
#include "store/base/text.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

RemoteError::RemoteError(const std::string& reason, std::string worker, std::string type, std::string text)
    : DistError(reason), worker_(std::move(worker)), type_(std::move(type)), text_(std::move(text)) {}
RemoteError::~RemoteError() = default;

namespace rpc {

namespace {

WorkerInfo info_of(const WorkerContact& worker) { return {worker.name, static_cast<int>(worker.id)}; }

// From what has become of a call to what its caller gets.
class OutcomeReceiver final : public CallReceiver {
 public:
  OutcomeReceiver(std::shared_ptr<rpc_detail::Receiver> receiver,
                  std::shared_ptr<const RpcWorld::Member> member, const WorkerContact& callee,
                  std::string function)
      : receiver_(std::move(receiver)),
        member_(std::move(member)),
        callee_(callee),
        function_(std::move(function)) {}

  void finish(CallOutcome outcome) override {
    if (const auto* const result = std::get_if<std::string>(&outcome)) return receiver_->on_result(*result);
    receiver_->on_error(
        std::visit(Overloaded{[](const std::string&) { return std::exception_ptr(); },
                              [this](const CallFailure& failure) { return error_of(failure); },
                              [this](const NoAnswer& none) { return error_of(none); }},
                   outcome));
  }

 private:
  [[nodiscard]] std::exception_ptr error_of(const CallFailure& failure) const {
    if (failure.kind == CallFailure::Kind::ending) {
      return error_of(NoAnswer{NoAnswer::Kind::lost, quoted(function_) + " was not run: " +
                                                         describe(callee_) + " has ended its remote calls"});
    }
    std::string reason = failure.text;
    if (failure.kind == CallFailure::Kind::bad_arguments) {
      reason =
          "the arguments of " + quoted(function_) + " do not decode in " + describe(callee_) + ": " + reason;
    } else if (failure.kind == CallFailure::Kind::exception) {
      reason = quoted(function_) + " failed in " + describe(callee_) + ": " +
               (failure.type.empty() ? "" : failure.type + ": ") + reason;
    }
    return std::make_exception_ptr(RemoteError(reason, callee_.name, failure.type, failure.text));
  }
  [[nodiscard]] std::exception_ptr error_of(const NoAnswer& none) const {
    return std::make_exception_ptr(
        DistNetworkError(none.text, {.rank = static_cast<int>(member_->agent->self().id),
                                     .operation = "rpc",
                                     .peer = static_cast<int>(callee_.id)}));
  }

  const std::shared_ptr<rpc_detail::Receiver> receiver_;
  const std::shared_ptr<const RpcWorld::Member> member_;  // keeps `callee_`
  const WorkerContact& callee_;
  const std::string function_;
};

}  // namespace

void init_rpc(const std::string& name, const RpcOptions& options) { RpcWorld::get().init(name, options); }

void shutdown(bool graceful, std::chrono::milliseconds timeout) {
  RpcWorld::get().shutdown(graceful, timeout);
}

WorkerInfo get_worker_info() { return info_of(RpcWorld::get().member("get_worker_info")->agent->self()); }

WorkerInfo get_worker_info(std::string_view name) {
  return info_of(RpcWorld::get().member("get_worker_info")->worker(name));
}

std::vector<WorkerInfo> get_worker_infos() {
  std::vector<WorkerInfo> all;
  for (const WorkerContact& worker : RpcWorld::get().member("get_worker_infos")->workers->workers()) {
    all.push_back(info_of(worker));
  }
  return all;
}

namespace rpc_detail {

Receiver::~Receiver() = default;

void add_function(std::string_view name, std::uint64_t signature, std::string_view pointer, Handler handler) {
  FunctionTable::get().add(name, {signature, std::string(pointer), std::move(handler)});
}

std::string name_of_function(std::string_view pointer) {
  if (std::optional<std::string> name = FunctionTable::get().name_of(pointer)) return *std::move(name);
  throw DistError("the function is not registered: add DLAUNCH_RPC(its name) beside it");
}

std::string begin_request(std::string_view name, std::uint64_t signature) {
  return to_bytes(CallHead{name, signature});
}

void call(const Destination& to, std::string_view name, std::string request,
          std::shared_ptr<Receiver> receiver) {
  const std::shared_ptr<const RpcWorld::Member> member = RpcWorld::get().member("rpc");
  const WorkerContact& callee = to.id() >= 0 ? member->worker(to.id()) : member->worker(to.name());
  const std::chrono::milliseconds timeout = to.timeout().value_or(member->timeout);
  if (timeout.count() < 0) throw DistError("the timeout of a remote call is negative");
  auto outcome = std::make_shared<OutcomeReceiver>(std::move(receiver), member, callee, std::string(name));
  member->agent->call(callee.id, std::string(name), std::move(request), timeout, std::move(outcome));
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
