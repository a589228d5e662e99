// Hostile contents of the memory that ranks share: two ranks make calls while a third party writes there. Any
// result and any DistError will do; a rank must not crash, hang, or touch other memory.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/shared_collectives/shared_call.h"
#include "tests/runtime/shared_collectives/shared_ranks.h"

namespace {

using namespace dlaunch;
using namespace dlaunch::internal;

constexpr int ranks = 2;

void make_calls(GroupMemory& memory, int rank, std::size_t count, bool in_heap) {
  Workspace workspace;
  ReductionOrders orders;
  std::string why;
  const std::shared_ptr<std::byte> piece = in_heap ? memory.allocate(count * ranks, why) : nullptr;
  std::vector<std::byte> elsewhere(count * ranks);
  const std::span<std::byte> values(piece ? piece.get() : elsewhere.data(), elsewhere.size());
  std::vector<std::byte> other(values.size());
  using Bytes = std::span<std::byte>;
  using ConstBytes = std::span<const std::byte>;
  const std::array<Bytes, ranks> outputs{Bytes(other).first(count), Bytes(other).last(count)};
  const std::array<ConstBytes, ranks> inputs{values.first(count), values.last(count)};
  const CollectiveFingerprint fingerprint{.kind = CollectiveKind::all_to_all, .count = count};
  const Deadline deadline = deadline_after(std::chrono::milliseconds(30));
  for (int round = 0; round < 3; ++round) {
    SharedCall call(memory, workspace, orders, fingerprint, deadline);
    call.all_reduce(values, DType::uint8, {});
    call.all_to_all(outputs, inputs);
    call.broadcast(values, 0);
    call.all_gather(outputs, inputs[0]);
    call.reduce_scatter(outputs[0], inputs, DType::uint8, {});
    call.gather(rank == 1 ? std::span<const Bytes>(outputs) : std::span<const Bytes>(), inputs[0], 1);
    call.scatter(outputs[0], rank == 1 ? std::span<const ConstBytes>(inputs) : std::span<const ConstBytes>(),
                 1);
    call.reduce(values, DType::uint8, {}, 0);
    call.barrier();
  }
}

}  // namespace

// The input: the length of the calls, which is odd if their values lie in the heap, then writes: a rank, an
// offset in its control, a value.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const std::size_t count = (std::size_t{data[0]} << 8U | data[1]) + 1;
  const auto writes = std::span(data, size).subspan(2);
  test::SharedRanks group(ranks);
  std::atomic<bool> over = false;
  std::thread scribbler([&] {
    for (std::size_t at = 0; !over; at = at + 12 > writes.size() ? 0 : at + 4) {
      std::array<std::uint8_t, 12> one{};
      std::memcpy(one.data(), writes.data() + at, std::min(one.size(), writes.size() - at));
      auto* const words = reinterpret_cast<std::uint64_t*>(&group.segment()->control(one[0] % ranks));
      std::uint64_t value = 0;
      std::memcpy(&value, one.data() + 4, sizeof value);
      const std::size_t word =
          (std::size_t{one[1]} << 8U | one[2]) % (sizeof(shared::Control) / sizeof value);
      std::atomic_ref<std::uint64_t>(words[word]).store(one[3] % 2 == 0 ? value : value % 16);
      std::this_thread::yield();
      if (one[3] % 4 == 1) {
        auto* const row = reinterpret_cast<std::uint64_t*>(
            group.segment()->eager(one[0] % ranks, one[1] % shared::eager_window));
        std::atomic_ref<std::uint64_t>(row[one[2] % 8]).store(value);
      }
    }
  });
  group.run([&](int rank, GroupMemory& memory) { make_calls(memory, rank, count, count % 2 == 1); });
  over = true;
  scribbler.join();
  return 0;
}
