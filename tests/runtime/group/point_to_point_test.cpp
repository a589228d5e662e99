// Messages between two ranks: over threads, so that every order of calls can be tried.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/point_to_point/envelope.h"
#include "tests/runtime/collectives/values.h"
#include "tests/runtime/group/thread_groups.h"
#include "tests/runtime/slowness.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::expect_success;
using test::in_groups;

// Elements of float: none, one, on both sides of the limit of short messages, several MiB.
const std::vector<std::size_t> message_lengths = {
    0, 1, 1000, short_message / 4, short_message / 4 + 1, 1'000'003 / test::slowness};

std::vector<float> values_of(int from, int to, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(from * 100 + to)) % 1009);
  }
  return values;
}

class Messages : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(PointToPoint, Messages, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(Messages, EveryRankSendsToEveryRankItselfToo) {
  const int size = GetParam();
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    for (const std::size_t count : message_lengths) {
      std::vector<std::vector<float>> out;
      std::vector<std::vector<float>> in;
      out.reserve(static_cast<std::size_t>(size));
      in.reserve(static_cast<std::size_t>(size));
      std::vector<P2POp> ops;
      for (int peer = 0; peer < size; ++peer) {
        out.push_back(values_of(group.rank(), peer, count));
        in.emplace_back(count, -1.0F);
        ops.push_back({P2POp::Kind::isend, Tensor::of(out.back()), peer, 7});
        ops.push_back({P2POp::Kind::irecv, Tensor::of(in.back()), peer, 7});
      }
      for (const Work& work : group.batch_isend_irecv(ops)) work.wait();
      for (int peer = 0; peer < size; ++peer) {
        EXPECT_TRUE(
            test::same_bits(in[static_cast<std::size_t>(peer)], values_of(peer, group.rank(), count)));
      }
    }
  }));
}

TEST_P(Messages, EveryTypeTravels) {
  const int size = GetParam();
  for (const DType dtype : test::all_dtypes) {
    test::with_type(dtype, [&]<class T>(T*) {
      expect_success(in_groups(size, [&](const ProcessGroup& group) {
        const auto values = [](int rank) {
          std::vector<std::byte> raw(9 * sizeof(T));
          for (std::size_t i = 0; i < 9; ++i) {
            const T value = test::to_value<T>(static_cast<int>(i % 2) + (sizeof(T) > 1 ? rank : 0));
            std::memcpy(raw.data() + i * sizeof(T), &value, sizeof value);
          }
          return raw;
        };
        std::vector<std::byte> out = values(group.rank());
        std::vector<std::byte> in(out.size());
        const auto view = [dtype](std::vector<std::byte>& raw) {
          const std::int64_t count = 9;
          return Tensor(static_cast<void*>(raw.data()), dtype, std::span(&count, 1));
        };
        const int right = (group.rank() + 1) % size;
        const int left = (group.rank() + size - 1) % size;
        const Work sent = group.isend(view(out), right);
        EXPECT_EQ(group.recv(view(in), left), left);
        sent.wait();
        EXPECT_EQ(in, values(left));
      }));
    });
  }
}

TEST(PointToPoint, MessagesWithOneTagKeepTheirOrder) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{20000}}) {
    expect_success(in_groups(2, [&](const ProcessGroup& group) {
      // More than the credits: some short ones must be offered.
      constexpr int messages = 3 * credits_at_start;
      std::vector<std::vector<int>> values;
      values.reserve(messages);
      std::vector<Work> works;
      for (int i = 0; i < messages; ++i) {
        // Long and short ones mixed.
        values.emplace_back(i % 3 == 0 ? count : 1, group.rank() == 0 ? i : -1);
        works.push_back(group.rank() == 0 ? group.isend(Tensor::of(values.back()), 1)
                                          : group.irecv(Tensor::of(values.back()), 0));
      }
      for (const Work& work : works) work.wait();
      for (int i = 0; i < messages; ++i) {
        const std::vector<int>& got = values[static_cast<std::size_t>(i)];
        EXPECT_TRUE(std::ranges::all_of(got, [i](int value) { return value == i; })) << i;
      }
    }));
  }
}

TEST(PointToPoint, TagsKeepMessagesApart) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    std::vector<int> one = {1};
    std::vector<int> two(30000, 2);
    if (group.rank() == 0) {
      const Work first = group.isend(Tensor::of(one), 1, {.tag = 1, .timeout = {}});
      const Work second = group.isend(Tensor::of(two), 1, {.tag = 0xffffffff, .timeout = {}});
      first.wait();
      second.wait();
    } else {
      std::vector<int> small(1);
      std::vector<int> big(30000);
      group.recv(Tensor::of(big), 0, {.tag = 0xffffffff, .timeout = {}});  // the other way round
      group.recv(Tensor::of(small), 0, {.tag = 1, .timeout = {}});
      EXPECT_EQ(small, one);
      EXPECT_EQ(big, two);
    }
  }));
}

TEST(PointToPoint, AnySourceTakesEachMessageOnceAndReportsItsSource) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{50000}}) {
    expect_success(in_groups(5, [&](const ProcessGroup& group) {
      constexpr int rounds = 20;
      std::vector<int> values(count, group.rank());
      if (group.rank() != 2) {
        for (int i = 0; i < rounds; ++i) group.send(Tensor::of(values), 2);
        return;
      }
      std::vector<int> seen(5);
      for (int i = 0; i < 4 * rounds; ++i) {
        const int from = group.recv(Tensor::of(values), any_source);
        EXPECT_EQ(values, std::vector<int>(count, from));
        ++seen[static_cast<std::size_t>(from)];
      }
      EXPECT_EQ(seen, (std::vector<int>{rounds, rounds, 0, rounds, rounds}));
    }));
  }
}

// A receive that nothing has come for yet must not hold up one that was posted after it, nor a collective.
TEST(PointToPoint, ReceivesCompleteInAnyOrder) {
  expect_success(in_groups(3, [](const ProcessGroup& group) {
    std::vector<int> a(20000);
    std::vector<int> b(20000);
    if (group.rank() == 0) {
      const Work from_one = group.irecv(Tensor::of(a), 1);
      const Work from_two = group.irecv(Tensor::of(b), 2);
      group.barrier();
      from_two.wait();
      EXPECT_FALSE(from_one.is_completed());
      std::vector<int> go = {1};
      group.send(Tensor::of(go), 1);
      from_one.wait();
      EXPECT_EQ(from_one.source_rank(), 1);
      EXPECT_EQ(a.back() + b.back(), 3);
      return;
    }
    group.barrier();
    std::vector<int> go(1);
    if (group.rank() == 1) group.recv(Tensor::of(go), 0);
    std::ranges::fill(a, group.rank());
    group.send(Tensor::of(a), 0);
  }));
}

TEST(PointToPoint, SeveralThreadsOfARankSendAndReceive) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    constexpr int threads = 4;
    std::vector<std::thread> all;
    std::vector<std::string> errors(threads);
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        errors[static_cast<std::size_t>(t)] = error_of([&] {
          const MessageOptions options{.tag = static_cast<std::uint32_t>(t), .timeout = {}};
          for (int i = 0; i < 50; ++i) {
            std::vector<int> value(i % 10 == 0 ? 10000 : 1, i);
            std::vector<int> got(value.size());
            const Work sent = group.isend(Tensor::of(value), 1 - group.rank(), options);
            group.recv(Tensor::of(got), 1 - group.rank(), options);
            sent.wait();
            EXPECT_EQ(got, value);
          }
        });
      });
    }
    for (std::thread& thread : all) thread.join();
    for (const std::string& error : errors) EXPECT_EQ(error, "no error");
  }));
}

TEST(PointToPoint, AMessageThatDoesNotFitIsNamed) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{100000}}) {
    expect_success(in_groups(2, [&](const ProcessGroup& group) {
      std::vector<float> values(count);
      std::vector<int> wrong(2);
      if (group.rank() == 0) {
        // A short one has long left; a long one learns it from the receiver's end.
        const Work sent = group.isend(Tensor::of(values), 1, {.tag = 5, .timeout = {}});
        EXPECT_TRUE(test::error_contains([&] { group.barrier(); }, "gave up") || !sent.is_success());
        return;
      }
      EXPECT_EQ(error_of([&] { group.recv(Tensor::of(wrong), 0, {.tag = 5, .timeout = {}}); }),
                "rank 1, recv #1 of group test, peer 0: it sends " + std::to_string(count) +
                    " x float32 with tag 5, this rank receives 2 x int32");
    }));
  }
}

TEST(PointToPoint, TimeoutNamesTheMissingPeer) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    std::vector<int> value(100000);
    const MessageOptions soon{.tag = 9, .timeout = std::chrono::milliseconds(20)};
    if (group.rank() == 0) {
      EXPECT_EQ(error_of([&] { group.recv(Tensor::of(value), 1, soon); }),
                "rank 0, recv #1 of group test, peer 1: no message with tag 9 from it before the deadline");
    } else {
      // Rank 0 breaks the group for all.
      EXPECT_NE(error_of([&] { group.isend(Tensor::of(value), 0).wait(); }), "no error");
    }
  }));
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    std::vector<int> value(100000);
    const MessageOptions soon{.tag = 9, .timeout = std::chrono::milliseconds(20)};
    if (group.rank() == 0) {
      EXPECT_EQ(error_of([&] { group.send(Tensor::of(value), 1, soon); }),
                "rank 0, send #1 of group test, peer 1: it did not receive the message with tag 9 before the "
                "deadline");
    } else {
      EXPECT_TRUE(test::error_contains([&] { group.recv(Tensor::of(value), any_source); }, "rank 0 gave up"));
    }
  }));
}

TEST(PointToPoint, DepartedPeerIsNotWaitedFor) {
  expect_success(in_groups(3, [](const ProcessGroup& group) {
    std::vector<int> value(1);
    if (group.rank() != 0) return;  // leaves in order
    EXPECT_EQ(error_of([&] { group.recv(Tensor::of(value), 2); }),
              "rank 0, recv #1 of group test, peer 2: it has left the group");
  }));
}

// What a send has promised arrives, although the sender leaves before the receiver even asks.
TEST(PointToPoint, LeavingLosesNoMessage) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    expect_success(in_groups(2, [](const ProcessGroup& group) {
      std::vector<int> value(100, 1);
      if (group.rank() == 0) {
        for (int i = 0; i < 10; ++i) group.send(Tensor::of(value), 1);
        return;
      }
      for (int i = 0; i < 10; ++i) {
        std::ranges::fill(value, 0);
        group.recv(Tensor::of(value), 0);
        EXPECT_EQ(value, std::vector<int>(100, 1));
      }
    }));
  }
}

TEST(PointToPoint, WrongArgumentsAreRefused) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    const std::vector<int> constant(1);
    std::vector<int> value(1);
    const std::string here = "rank " + std::to_string(group.rank());
    EXPECT_EQ(error_of([&] { group.send(Tensor::of(value), 2); }),
              here + ", send of group test: dst 2 is out of range for a group of 2 ranks");
    EXPECT_EQ(error_of([&] { group.send(Tensor::of(value), any_source); }),
              here + ", send of group test: dst -1 is out of range for a group of 2 ranks");
    EXPECT_EQ(error_of([&] { group.recv(Tensor::of(value), -2); }),
              here + ", recv of group test: src -2 is out of range for a group of 2 ranks");
    EXPECT_EQ(error_of([&] { group.recv(Tensor::of(constant), 0); }),
              here + ", recv of group test: the tensor to write to is a view of const memory");
    const std::vector<P2POp> one_is_wrong = {{P2POp::Kind::isend, Tensor::of(value), 0},
                                             {P2POp::Kind::isend, Tensor::of(value), 9}};
    EXPECT_EQ(error_of([&] { group.batch_isend_irecv(one_is_wrong); }),
              here + ", batch_isend_irecv of group test: dst 9 is out of range for a group of 2 ranks");
    group.barrier();
  }));
}

TEST(PointToPoint, ABatchWithAWrongOneStartsNothing) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    std::vector<int> value = {group.rank()};
    if (group.rank() == 0) {
      group.recv(Tensor::of(value), 1);
      EXPECT_EQ(value[0], 2);
      return;
    }
    const std::vector<P2POp> second_is_wrong = {
        {P2POp::Kind::isend, Tensor::of(value), 0},
        {P2POp::Kind::isend, Tensor::from(value.data(), {1}, {Device::Kind::cuda, 0}), 0}};
    EXPECT_EQ(error_of([&] { group.batch_isend_irecv(second_is_wrong); }),
              "rank 1, batch_isend_irecv of group test: backend threads does not work on device cuda:0");
    value[0] = 2;
    group.send(Tensor::of(value), 0);
  }));
}

}  // namespace
}  // namespace dlaunch::internal
