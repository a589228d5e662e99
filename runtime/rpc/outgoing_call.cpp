#include "runtime/rpc/outgoing_call.h"

#include <exception>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/rpc/call_context.h"
#include "store/base/overloaded.h"
#include "store/base/text.h"

namespace dlaunch::internal {

namespace {

thread_local std::vector<std::shared_ptr<References::Handle>> written;
thread_local const References::Arrived* readable = nullptr;

std::vector<ReferenceId> ids_of(const OutgoingCall& call) {
  std::vector<ReferenceId> ids;
  for (const auto& handle : call.passed) ids.push_back(handle->id());
  if (call.used) ids.push_back(call.used->id());
  return ids;
}

// From what has become of a call to what its caller gets.
class OutcomeReceiver final : public CallReceiver, public std::enable_shared_from_this<OutcomeReceiver> {
 public:
  // `references`: those in the request, as append_references() writes them.
  OutcomeReceiver(OutgoingCall& call, std::string references)
      : member_(call.member),
        callee_(call.member->agent->worker(call.callee)),
        function_(call.function),
        receiver_(std::move(call.receiver)),
        used_(std::move(call.used)),
        note_(call.request.note),
        references_(std::move(references)) {}

  void finish(CallOutcome outcome) override {
    if (const auto* const result = std::get_if<codec::Bytes>(&outcome)) return on_result(*result);
    if (!references_.empty()) member_->references->ask(references_);
    if (note_ && !has_arrived(outcome)) note_->on_rejected();
    receiver_->on_error(
        std::visit(Overloaded{[](const codec::Bytes&) { return std::exception_ptr(); },
                              [this](const CallFailure& failure) { return error_of(failure); },
                              [this](const NoAnswer& none) { return error_of(none); }},
                   outcome));
  }

 private:
  // Whether the request may have reached its function.
  static bool has_arrived(const CallOutcome& outcome) {
    if (const auto* const failed = std::get_if<CallFailure>(&outcome))
      return failed->kind == CallFailure::Kind::exception;
    const auto* const none = std::get_if<NoAnswer>(&outcome);
    return !none || none->was_sent;
  }
  void on_result(const codec::Bytes& bytes) {
    const std::optional<WithReferences> split = split_references(bytes.front);
    if (!split)
      return receiver_->on_error(error_of(CallFailure{.type = "", .text = "its result does not decode"}));
    const auto arrived = member_->references->arrive(callee_.id, split->references);
    if (split->references.empty()) return read(*arrived, {split->rest, bytes.blocks});
    if (!arrived)
      return receiver_->on_error(error_of(CallFailure{.type = "", .text = "its result came too late"}));
    member_->references->when_ready(split->ids(),
                                    [self = shared_from_this(), arrived, rest = std::string(split->rest),
                                     blocks = bytes.blocks](std::exception_ptr error) {
                                      if (error) return self->receiver_->on_error(std::move(error));
                                      self->read(*arrived, {rest, blocks});
                                    });
  }
  void read(const References::Arrived& arrived, codec::Reader bytes) const {
    const ReadScope scope(arrived);
    receiver_->on_result(std::move(bytes));
  }
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
        DistNetworkError(none.text, {.rank = static_cast<int>(member_->agent->self().rank),
                                     .operation = "rpc",
                                     .peer = static_cast<int>(callee_.rank)}));
  }

  const std::shared_ptr<const RpcWorld::Member> member_;  // keeps `callee_`
  const WorkerContact& callee_;
  const std::string_view function_;
  const std::shared_ptr<rpc::rpc_detail::Receiver> receiver_;
  const std::shared_ptr<References::Handle> used_;
  const std::shared_ptr<codec::MessageNote> note_;
  const std::string references_;
};

// Once for a call.
void send_now(OutgoingCall& call) {
  std::string& front = call.request.front;
  const std::size_t before = front.size();
  call.member->references->append(front, call.passed, call.callee);
  std::string references = call.passed.empty() ? "" : front.substr(before);
  auto receiver = std::make_shared<OutcomeReceiver>(call, std::move(references));
  if (call.request.note) call.request.note->on_sent();
  call.member->agent->call(call.callee, call.function, std::move(call.request), call.timeout,
                           std::move(receiver));
}

}  // namespace

void send(OutgoingCall call) {
  meet_in_context(rpc::rpc_detail::call_context(), call.member->agent->worker(call.callee).rank);
  const std::vector<ReferenceId> ids = ids_of(call);
  if (ids.empty()) return send_now(call);
  const auto shared = std::make_shared<OutgoingCall>(std::move(call));
  shared->member->references->when_ready(ids, [shared](std::exception_ptr error) {
    if (error) return shared->receiver->on_error(std::move(error));
    send_now(*shared);
  });
}

std::vector<std::shared_ptr<References::Handle>> take_written_handles() { return std::exchange(written, {}); }

void add_written_handle(std::shared_ptr<References::Handle> handle) { written.push_back(std::move(handle)); }

ReadScope::ReadScope(const References::Arrived& arrived) : before_(std::exchange(readable, &arrived)) {}
ReadScope::~ReadScope() { readable = before_; }

std::shared_ptr<References::Handle> ReadScope::handle(const ReferenceId& id) {
  if (!readable) throw DistError("a remote reference is only read from a remote call");
  return readable->handle(id);
}

}  // namespace dlaunch::internal
