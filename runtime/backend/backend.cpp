#include "dlaunch/backend.h"

#include "dlaunch/transport.h"
#include "runtime/base/errors.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

// Here, so that the types' run-time information exists once, in libdlaunch.so (see error.cpp).
BackendStore::~BackendStore() = default;
Backend::~Backend() = default;
Transfer::~Transfer() = default;
AnySourceReceive::~AnySourceReceive() = default;
bool AnySourceReceive::retract() noexcept { return false; }
EagerChannel::~EagerChannel() = default;
Transport::~Transport() = default;
void Transport::abort_for(int peer, const std::string& reason) noexcept {
  abort("because of rank " + std::to_string(peer) + ": " + reason);
}
void Transport::enter(std::uint64_t /*number*/) noexcept {}
Transport::ProgressReport Transport::query_progress(std::uint64_t /*number*/) { return {}; }
internal::GroupMemory* Transport::shared_memory() { return nullptr; }
const internal::HostMap* Transport::hosts() { return nullptr; }
internal::MessageRings* Transport::message_rings() { return nullptr; }
void Transport::on_unexpected_message(std::uint64_t /*slot*/, std::function<void()> come) {
  if (come) come();
}

namespace {
[[noreturn]] void not_offered(const char* what) {
  throw DistBackendError(std::string("the backend does not offer ") + what);
}
}  // namespace

Work Backend::all_reduce(const Tensor&, const Reduction&, const Operation&) { not_offered("all_reduce"); }
Work Backend::broadcast(const Tensor&, int, const Operation&) { not_offered("broadcast"); }
Work Backend::all_gather(std::span<const Tensor>, const Tensor&, const Operation&) {
  not_offered("all_gather");
}
Work Backend::barrier(const Operation&) { not_offered("barrier"); }
Work Backend::reduce(const Tensor&, int, const Reduction&, const Operation&) { not_offered("reduce"); }
Work Backend::gather(std::span<const Tensor>, const Tensor&, int, const Operation&) { not_offered("gather"); }
Work Backend::scatter(const Tensor&, std::span<const Tensor>, int, const Operation&) {
  not_offered("scatter");
}
Work Backend::reduce_scatter(const Tensor&, std::span<const Tensor>, const Reduction&, const Operation&) {
  not_offered("reduce_scatter");
}
Work Backend::all_to_all(std::span<const Tensor>, std::span<const Tensor>, const Operation&) {
  not_offered("all_to_all");
}
Work Backend::all_reduce_coalesced(std::span<const Tensor>, const Reduction&, const Operation&) {
  not_offered("all_reduce_coalesced");
}
Work Backend::send(const Tensor&, int, Tag, const Operation&) { not_offered("send"); }
Work Backend::recv(const Tensor&, int, Tag, const Operation&) { not_offered("recv"); }
std::shared_ptr<std::byte> Backend::allocate_shared(std::size_t /*size*/, std::string& why) {
  why = "the backend shares no memory";
  return nullptr;
}
std::string Backend::why_not(const CallSubject&) { return {}; }
bool Backend::takes_every_call() noexcept { return false; }
bool Backend::takes_device_memory(const CallSubject&) { return false; }
void Backend::begin_together() {}
void Backend::end_together() {}
void Backend::enter(std::uint64_t) noexcept {}
void Backend::explain_delay(std::uint64_t) {}
bool Backend::is_split_for_groups() { return false; }
void Backend::split_without_this_rank(Deadline /*deadline*/, const LossCheck& /*check*/) {}
void Backend::check() {}
void Backend::leave(Deadline) noexcept {}
std::vector<int> Backend::departed() { return {}; }
std::vector<int> Transport::departed() { return {}; }

}  // namespace v1
}  // namespace dlaunch
