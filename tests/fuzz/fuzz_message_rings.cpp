// Hostile contents of the rings between two ranks: whatever stands there, a rank that sends and receives must
// not crash, hang, or touch other memory. It may report any DistError.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/point_to_point/memory_protocol.h"
#include "tests/runtime/point_to_point/ring_ranks.h"

namespace {

using namespace dlaunch;
using namespace dlaunch::internal;

constexpr std::size_t counts[] = {0, 4, 1000, 100'000};

// One rank, whose peer writes what the input has.
class Rank {
 public:
  void receive() {
    for (const std::size_t count : counts) {
      values_.emplace_back(count);
      const Tensor tensor = Tensor::of(values_.back());
      const int from = count == 4 ? any_source : 0;
      protocol_.receive({tensor, from, count, soon_, WorkSource()}, outcome_);
    }
  }
  void send() {
    for (const std::size_t count : counts) {
      sent_.emplace_back(count);
      const Tensor tensor = Tensor::of(sent_.back());
      if (!protocol_.send_at_once(tensor, 0, count, outcome_))
        protocol_.send_rts({tensor, 0, count, soon_, WorkSource()});
    }
  }
  void progress() {
    protocol_.progress(outcome_);
    for (std::size_t i = 0; i < outcome_.reads.size(); ++i) {
      const bool is_read = protocol_.make(outcome_.reads[i]);
      protocol_.end_read(outcome_.reads[i], is_read, outcome_);
    }
    outcome_ = {};
  }

  test::RingRanks all{2};

 private:
  const Deadline soon_ = deadline_after(std::chrono::hours(1));
  MemoryProtocol protocol_{all.transport(1), all.rings(1)};
  MemoryProtocol::Outcome outcome_;
  std::vector<std::vector<std::uint8_t>> values_;
  std::vector<std::vector<std::uint8_t>> sent_;
};

}  // namespace

// The input: steps of what the peer does. Each begins with a byte, which selects a record with some content,
// a value of a counter, or bytes over the ring.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Rank rank;
  const auto take = [&](void* to, std::size_t length) {
    const std::size_t have = std::min(length, size);
    if (length > 0) std::memset(to, 0, length);
    if (have > 0) std::memcpy(to, data, have);
    data += have;
    size -= have;
  };
  try {
    rank.receive();
    rank.send();
    shared::RingEnds& inward = rank.all.segment().ring_ends(0, 1);
    shared::RingEnds& outward = rank.all.segment().ring_ends(1, 0);
    while (size > 0) {
      std::uint8_t step = 0;
      take(&step, 1);
      std::uint64_t value = 0;
      if (step % 4 == 0) take(&value, sizeof value);
      if (step % 4 == 0) (step % 8 == 0 ? inward.written : outward.read).value = value;
      if (step % 4 == 1) take(rank.all.segment().ring(0, 1) + step / 4 * 64, 64);
      if (step % 4 >= 2) {
        shared::RingRecord record;
        std::array<std::uint8_t, 4> few{};
        take(few.data(), few.size());
        record.kind = few[0] % 8;
        record.tag = counts[few[1] % std::size(counts)];
        record.dtype = few[1] / 16;
        record.count = few[2] % 2 == 0 ? record.tag : few[2];
        record.number = few[3] % 8;
        std::vector<std::byte> content(step % 4 == 2 ? record.tag % 1001 : few[3]);
        take(content.data(), std::min<std::size_t>(content.size(), 32));
        (void)rank.all.rings(0).put(1, record, content);
      }
      rank.progress();
    }
  } catch (const DistError&) {
  }
  return 0;
}
