#include "runtime/shared_collectives/shared_call.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dlaunch/error.h"

namespace dlaunch::internal {

namespace {

shared::Fingerprint words_of(const CollectiveFingerprint& fingerprint) {
  return {.kind = static_cast<std::uint64_t>(fingerprint.kind) |
                  static_cast<std::uint64_t>(fingerprint.dtype) << 8U |
                  static_cast<std::uint64_t>(fingerprint.op) << 16U |
                  static_cast<std::uint64_t>(static_cast<std::uint32_t>(fingerprint.root)) << 32U,
          .count = fingerprint.count,
          .layout = fingerprint.layout};
}

// For messages: the values may be anything.
CollectiveFingerprint fingerprint_in(const shared::Fingerprint& words) {
  return {.kind = static_cast<CollectiveKind>(words.kind & 0xffU),
          .dtype = static_cast<DType>(words.kind >> 8U & 0xffU),
          .op = static_cast<ReduceOp>(words.kind >> 16U & 0xffU),
          .root = static_cast<std::int32_t>(words.kind >> 32U),
          .count = words.count,
          .layout = words.layout};
}

}  // namespace

void throw_other_call(int peer, const shared::Fingerprint& theirs, const shared::Fingerprint& ours) {
  throw DistNetworkError(describe_difference(peer, fingerprint_in(theirs), fingerprint_in(ours)),
                         {.peer = peer});
}

SharedCall::SharedCall(GroupMemory& memory, Workspace& workspace, ReductionOrders& orders,
                       const CollectiveFingerprint& fingerprint, Deadline deadline, std::size_t averaged)
    : memory_(memory),
      workspace_(workspace),
      orders_(orders),
      fingerprint_(fingerprint),
      words_(words_of(fingerprint)),
      deadline_(deadline),
      averaged_(averaged == 0 ? memory.size() : averaged) {}

// Before long data: no rank still reads the staging of an earlier call.
void SharedCall::meet() {
  begin();
  memory_.publish();
  memory_.meet();
}

SharedCall::~SharedCall() {
  if (lends_) memory_.withdraw();
}

// The address of what others may read; 0: they cannot.
std::uint64_t SharedCall::lend(ConstBytes bytes) {
  constexpr std::uint64_t nothing = 1;
  if (bytes.empty()) return nothing;
  if (!is_readable_directly(bytes.data(), bytes.size())) return 0;
  lends_ = true;
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(bytes.data()));
}

// As meet(). `lent`: what this rank lends to all, or to each rank; as many on all ranks. Returns whether all
// lend; otherwise the data go through the staging areas.
bool SharedCall::meet_to_lend(std::span<const ConstBytes> lent) {
  begin();
  const std::size_t length = lent.size() * sizeof(std::uint64_t);
  std::vector<std::uint64_t> own;
  for (const ConstBytes bytes : lent) own.push_back(lend(bytes));
  if (std::ranges::find(own, 0U) != own.end()) std::ranges::fill(own, 0U);
  std::memcpy(memory_.compose(length), own.data(), length);
  memory_.publish();
  addresses_.assign(size(), 0);
  bool all_lend = own[0] != 0;
  for_each_peer([&](std::size_t peer) {
    const std::byte* const theirs = memory_.receive(peer, length);
    const std::size_t index = lent.size() == 1 ? 0 : self();
    std::memcpy(&addresses_[peer], theirs + index * sizeof(std::uint64_t), sizeof(std::uint64_t));
    all_lend = all_lend && addresses_[peer] != 0;
  });
  all_lend = all_lend && memory_.reads_directly();
  if (!all_lend) lends_ = false;
  return all_lend;
}

// Reads `targets`, by rank, from their senders, and waits until `reader` has read what this rank lends.
void SharedCall::move_directly(std::span<const Bytes> targets, std::size_t reader) {
  for_each_peer([&](std::size_t peer) {
    if (peer >= targets.size() || targets[peer].empty()) return;
    memory_.read_directly(peer, addresses_[peer], targets[peer].data(), targets[peer].size());
  });
  memory_.set_all_drained();
  for_each_peer([&](std::size_t peer) {
    if (reader == every_reader || reader == peer) memory_.await_drained(peer, 0);
  });
  lends_ = false;
}

SharedCall::Rounds SharedCall::no_rounds() const {
  return {.to = std::vector<std::uint64_t>(size()), .from = std::vector<std::uint64_t>(size())};
}

void SharedCall::barrier() { meet(); }

}  // namespace dlaunch::internal
