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

// As meet(). `shared`: what all ranks read of this rank, or what each one reads; nothing: the ranks do not
// share. As many on all ranks. Returns whether all ranks have theirs in one heap; places_ then has `size`
// bytes of each rank for this one.
bool SharedCall::meet_to_share(std::span<const ConstBytes> shared, std::size_t size, std::size_t alignment) {
  // The heap's identity, and the offset of each.
  const std::size_t count = std::max<std::size_t>(shared.size(), 1);
  std::vector<std::uint64_t> own(1 + count);
  const auto first = std::ranges::find_if(shared, [](ConstBytes bytes) { return !bytes.empty(); });
  if (first != shared.end()) heap_ = SharedHeap::containing(*first);
  for (std::size_t i = 0; heap_ && i < shared.size(); ++i) {
    if (shared[i].empty()) continue;
    own[1 + i] = heap_->offset_of(shared[i].data());
    if (heap_->at(own[1 + i], shared[i].size()) != shared[i].data()) heap_.reset();
  }
  own[0] = heap_ ? heap_->identity() : 0;
  lends_ = heap_ != nullptr;
  const std::size_t length = own.size() * sizeof(std::uint64_t);
  begin();
  std::memcpy(memory_.compose(length), own.data(), length);
  memory_.publish();
  places_.assign(this->size(), nullptr);
  bool all_share = heap_ != nullptr;
  for_each_peer([&](std::size_t peer) {
    const std::byte* const theirs = memory_.receive(peer, length);
    std::uint64_t words[2] = {};
    std::memcpy(&words[0], theirs, sizeof words[0]);
    all_share = all_share && words[0] == own[0];
    if (!all_share) return;
    std::memcpy(&words[1], theirs + (1 + (count == 1 ? 0 : self())) * sizeof words[1], sizeof words[1]);
    places_[peer] = heap_->at(words[1], size);
    if (places_[peer] == nullptr || words[1] % alignment != 0) memory_.throw_damaged(peer);
  });
  if (!all_share) lends_ = false;
  return all_share;
}

// After set_all_drained(): waits until no rank reads this rank's values any more.
void SharedCall::end_sharing() {
  for_each_peer([&](std::size_t peer) {
    memory_.throw_if_withdrawn(peer);
    memory_.await_all_drained(peer);
  });
  lends_ = false;
}

SharedCall::Rounds SharedCall::no_rounds() const {
  return {.to = std::vector<std::uint64_t>(size()), .from = std::vector<std::uint64_t>(size())};
}

void SharedCall::barrier() { meet(); }

}  // namespace dlaunch::internal
