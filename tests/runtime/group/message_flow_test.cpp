// Many messages in flight: credits bound their memory, and their order is kept.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "runtime/point_to_point/envelope.h"
#include "tests/runtime/collectives/forwarding_transport.h"
#include "tests/runtime/collectives/values.h"
#include "tests/runtime/group/thread_groups.h"
#include "tests/runtime/slowness.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::in_groups;

// Counts the envelopes that a rank sends, by kind.
class EnvelopeCounter final : public test::ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override {
    std::span<const std::byte> block = slot == envelope_slot ? bytes : std::span<const std::byte>();
    const std::lock_guard lock(mutex_);
    while (const auto envelope = parse_envelope(block)) {
      ++counts_[envelope->kind];
      block = block.subspan(sizeof *envelope + envelope->carried());
    }
    return ForwardingTransport::post_send(peer, slot, bytes);
  }

  [[nodiscard]] int sent(Envelope::Kind kind) {
    const std::lock_guard lock(mutex_);
    return counts_[kind];
  }

 private:
  std::mutex mutex_;
  std::map<Envelope::Kind, int> counts_;  // protected by mutex_
};

TEST(PointToPoint, CreditsBoundWhatLiesUntaken) {
  expect_success(test::on_ranks(2, [](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    auto counted = std::make_unique<EnvelopeCounter>(std::move(transport));
    EnvelopeCounter& counter = *counted;
    const auto impl = test::make_impl(rank, 2, std::make_shared<CollectiveBackend>(std::move(counted)));
    const ProcessGroup group = GroupImpl::handle(impl);
    std::vector<int> value(1);
    std::vector<int> go(1);
    // One more than there are credits; then all are taken, and the credits are back before the receiver's
    // sign.
    constexpr int messages = credits_at_start + 1;
    for (int round = 1; round <= 3; ++round) {
      if (rank == 1) {
        group.barrier();
        for (int i = 0; i < messages; ++i) group.recv(Tensor::of(value), 0);
        group.send(Tensor::of(go), 0);
        continue;
      }
      std::vector<Work> works;
      for (int i = 0; i < messages; ++i) works.push_back(group.isend(Tensor::of(value), 1));
      group.barrier();
      group.recv(Tensor::of(go), 1);
      for (const Work& work : works) work.wait();
      EXPECT_EQ(counter.sent(Envelope::Kind::eager), round * credits_at_start);
      EXPECT_EQ(counter.sent(Envelope::Kind::rts), round);
      EXPECT_EQ(counter.sent(Envelope::Kind::data), round);
    }
    impl->destroy();
  }));
}

// In whatever order they come and are received: in every one of these, each step that looked through what
// waits would take minutes.
enum class Flood { receives_first, sends_first, any_source, tags_reversed };

class MessageFlood : public testing::TestWithParam<Flood> {};

INSTANTIATE_TEST_SUITE_P(PointToPoint, MessageFlood,
                         testing::Values(Flood::receives_first, Flood::sends_first, Flood::any_source,
                                         Flood::tags_reversed));

TEST_P(MessageFlood, TensOfThousandsInFlightArriveInTheirOrder) {
  const Flood flood = GetParam();
  expect_success(in_groups(2, [flood](const ProcessGroup& group) {
    constexpr int count = 20'000 / test::slowness;  // each way
    const int peer = 1 - group.rank();
    std::vector<int> out(count);
    std::vector<int> in(count, -1);
    std::iota(out.begin(), out.end(), 0);
    const auto place = [](std::vector<int>& values, int i) {
      return Tensor::from(&values[static_cast<std::size_t>(i)], {1});
    };
    const auto options = [flood](int i) {
      const bool by_tag = flood == Flood::tags_reversed;
      return MessageOptions{.tag = by_tag ? static_cast<std::uint32_t>(i) : 0, .timeout = {}};
    };
    std::vector<Work> works;
    works.reserve(2 * count);
    const auto send_all = [&] {
      for (int i = 0; i < count; ++i) works.push_back(group.isend(place(out, i), peer, options(i)));
    };
    const auto receive_all = [&] {
      const int source = flood == Flood::any_source ? any_source : peer;
      for (int n = 0; n < count; ++n) {
        const int i = flood == Flood::tags_reversed ? count - 1 - n : n;
        works.push_back(group.irecv(place(in, i), source, options(i)));
      }
    };
    const bool sends_first = flood == Flood::sends_first || flood == Flood::tags_reversed;
    if (sends_first) send_all();
    if (!sends_first) receive_all();
    group.barrier();
    if (sends_first) receive_all();
    if (!sends_first) send_all();
    for (const Work& work : works) work.wait();
    EXPECT_EQ(in, out);
  }));
}

TEST(PointToPoint, EnvelopesAreValidatedBeforeUse) {
  Envelope envelope{.kind = Envelope::Kind::eager, .dtype = DType::float32, .count = 8};
  std::vector<std::byte> block(envelope_block);
  const auto read_from = [&](std::size_t length) {
    std::memcpy(block.data(), &envelope, sizeof envelope);
    return parse_envelope(std::span(block).first(length)).has_value();
  };
  const auto read = [&] { return read_from(block.size()); };
  EXPECT_TRUE(read());
  EXPECT_TRUE(read_from(sizeof envelope + 32));
  EXPECT_FALSE(read_from(sizeof envelope + 31));
  EXPECT_FALSE(read_from(sizeof envelope - 1));
  envelope.kind = Envelope::Kind::rts;  // carries nothing
  EXPECT_TRUE(read_from(sizeof envelope));
  envelope.kind = Envelope::Kind::data;
  EXPECT_FALSE(read_from(sizeof envelope + 31));
  envelope.count = short_message / 4;
  EXPECT_TRUE(read());
  envelope.count = short_message / 4 + 1;
  EXPECT_FALSE(read());
  envelope.count = std::uint64_t{1} << 62;  // times four: 0
  EXPECT_FALSE(read());
  envelope.count = 1;
  envelope.dtype = static_cast<DType>(200);
  EXPECT_FALSE(read());
  envelope.dtype = DType::float32;
  envelope.magic = 1;
  EXPECT_FALSE(read());
}

}  // namespace
}  // namespace dlaunch::internal
