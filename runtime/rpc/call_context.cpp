#include "runtime/rpc/call_context.h"

#include <atomic>
#include <utility>

namespace dlaunch {
namespace internal {

namespace {

thread_local std::uint64_t current = 0;
std::atomic<rpc::rpc_detail::MeetInContext> on_meeting = nullptr;

}  // namespace

void meet_in_context(std::uint64_t context, std::uint32_t rank) {
  if (context == 0) return;
  if (const auto meet = on_meeting.load(std::memory_order_acquire)) meet(context, static_cast<int>(rank));
}

}  // namespace internal
using namespace internal;
inline namespace v1 {
namespace rpc::rpc_detail {

std::uint64_t call_context() { return current; }

CallContextScope::CallContextScope(std::uint64_t context) : before_(std::exchange(current, context)) {}
CallContextScope::~CallContextScope() { current = before_; }

void on_meeting_in_context(MeetInContext meet) { on_meeting.store(meet, std::memory_order_release); }

}  // namespace rpc::rpc_detail
}  // namespace v1
}  // namespace dlaunch
