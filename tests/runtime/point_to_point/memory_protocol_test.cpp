#include "runtime/point_to_point/memory_protocol.h"

#include <gtest/gtest.h>

#include <list>
#include <random>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "tests/runtime/point_to_point/protocol_ranks.h"

namespace dlaunch::internal {
namespace {

using test::long_count;
using test::MemoryProtocolTest;
using test::some_values;
using test::soon;
using test::Values;

TEST_F(MemoryProtocolTest, AShortMessageIsSentAtOnce) {
  const Values sent = some_values(10);
  Values received(10);
  EXPECT_TRUE(send(0, 1, sent, 5).is_success());
  const Work work = receive(1, 0, received, 5);
  EXPECT_FALSE(work.is_completed());
  step(1);
  EXPECT_TRUE(work.is_success());
  EXPECT_EQ(work.source_rank(), 0);
  EXPECT_EQ(received, sent);
}

TEST_F(MemoryProtocolTest, AMessageWaitsForItsReceive) {
  const Values sent = some_values(10);
  (void)send(0, 1, sent);
  step(1);
  Values received(10);
  EXPECT_TRUE(receive(1, 0, received).is_success());
  EXPECT_EQ(received, sent);
}

TEST_F(MemoryProtocolTest, ALongMessageIsReadFromTheSender) {
  const Values sent = some_values(long_count);
  Values received(long_count);
  const Work out = send(0, 1, sent);
  const Work in = receive(1, 0, received);
  step(1);
  EXPECT_TRUE(in.is_success());
  EXPECT_EQ(received, sent);
  EXPECT_EQ(reads_, all_.rings(0).may_lend() ? 1 : 0);
  step(0);
  EXPECT_TRUE(out.is_success());
}

TEST_F(MemoryProtocolTest, ALongMessageComesInPiecesIfItCannotBeRead) {
  all_.rings(0).forbid_direct_reads();
  const Values sent = some_values(long_count);
  Values received(long_count);
  const Work out = send(0, 1, sent);
  const Work in = receive(1, 0, received);
  for (int i = 0; i < 100 && !(in.is_completed() && out.is_completed()); ++i) step_all();
  EXPECT_TRUE(out.is_success());
  EXPECT_TRUE(in.is_success());
  EXPECT_EQ(received, sent);
  EXPECT_EQ(reads_, 0);
  EXPECT_FALSE(protocol(0).is_busy());
  EXPECT_FALSE(protocol(1).is_busy());
}

TEST_F(MemoryProtocolTest, AnEmptyMessageWithoutACreditComes) {
  all_.rings(0).forbid_direct_reads();
  const Values empty;
  Values none;
  std::vector<Work> sends;
  sends.reserve(credits_at_start + 1);
  for (int i = 0; i < credits_at_start + 1; ++i) sends.push_back(send(0, 1, empty));
  EXPECT_FALSE(sends.back().is_completed());
  std::vector<Work> receives;
  receives.reserve(sends.size());
  for (std::size_t i = 0; i < sends.size(); ++i) receives.push_back(receive(1, 0, none));
  step_all(4);
  EXPECT_TRUE(sends.back().is_success());
  EXPECT_TRUE(receives.back().is_success());
}

// A rank that does not receive is not flooded.
TEST_F(MemoryProtocolTest, AMessageWithoutACreditWaitsForItsReceive) {
  const Values sent = some_values(1000);
  std::vector<Work> sends;
  sends.reserve(200);
  for (int i = 0; i < 200; ++i) {
    sends.push_back(send(0, 1, sent));
    step(1);
  }
  EXPECT_TRUE(sends[credits_at_start - 1].is_success());
  EXPECT_FALSE(sends[credits_at_start].is_completed());
  EXPECT_TRUE(protocol(0).is_transferring());
  std::vector<Values> received(sends.size(), Values(1000));
  for (Values& values : received) {
    const Work work = receive(1, 0, values);
    for (int i = 0; i < 10 && !work.is_completed(); ++i) step_all();
    EXPECT_TRUE(work.is_success());
    EXPECT_EQ(values, sent);
  }
  step_all();
  for (const Work& work : sends) EXPECT_TRUE(work.is_success());
  EXPECT_TRUE(send(0, 1, sent).is_success());  // the credits are back
}

// So a message that is sent is there, also if the sender ends now.
TEST_F(MemoryProtocolTest, AMessageWithoutRoomInTheRingIsNotSentUntilItsReceiveComes) {
  const std::size_t count = all_.rings(0).most_content() / sizeof(std::int32_t);
  std::vector<Values> sent;
  for (int i = 0; i < 20; ++i) sent.push_back(some_values(count, i));
  std::vector<Work> sends;
  sends.reserve(sent.size());
  for (const Values& values : sent) sends.push_back(send(0, 1, values));
  EXPECT_TRUE(sends.front().is_success());
  EXPECT_FALSE(sends.back().is_completed());
  for (const Values& values : sent) {
    Values received(count);
    const Work work = receive(1, 0, received);
    for (int i = 0; i < 10 && !work.is_completed(); ++i) step_all();
    EXPECT_EQ(received, values);
  }
  step_all();
  for (const Work& work : sends) EXPECT_TRUE(work.is_success());
  EXPECT_FALSE(protocol(0).is_busy());
  EXPECT_FALSE(all_.rings(0).has_room());
}

TEST_F(MemoryProtocolTest, TheNextMessageIsTakenWithoutAPostedReceive) {
  const Values sent = some_values(10);
  Values received(10);
  const Tensor tensor = Tensor::of(received);
  EXPECT_FALSE(protocol(1).receive_next(tensor, 0, 5));
  (void)send(0, 1, sent, 5);
  EXPECT_FALSE(protocol(1).receive_next(tensor, 0, 6));
  Values shorter(9);
  EXPECT_FALSE(protocol(1).receive_next(Tensor::of(shorter), 0, 5));
  EXPECT_TRUE(protocol(1).receive_next(tensor, 0, 5));
  EXPECT_EQ(received, sent);
  EXPECT_FALSE(protocol(1).receive_next(tensor, 0, 5));
}

TEST_F(MemoryProtocolTest, TheNextMessageDoesNotOvertake) {
  const Values first = some_values(10, 1);
  const Values second = some_values(10, 100);
  Values received(10);
  (void)send(0, 1, first);
  step(1);  // it waits for a receive
  (void)send(0, 1, second);
  EXPECT_FALSE(protocol(1).receive_next(Tensor::of(received), 0, 0));
  EXPECT_TRUE(receive(1, 0, received).is_success());
  EXPECT_EQ(received, first);
  Values posted(10);
  const Work earlier = receive(1, any_source, posted);
  EXPECT_FALSE(protocol(1).receive_next(Tensor::of(received), 0, 0));
  step(1);
  EXPECT_TRUE(earlier.is_success());
  EXPECT_EQ(posted, second);
}

TEST_F(MemoryProtocolTest, CreditsComeBackFromMessagesThatWereTakenSo) {
  const Values sent = some_values(10);
  Values received(10);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(send(0, 1, sent).is_success()) << i;
    EXPECT_TRUE(protocol(1).receive_next(Tensor::of(received), 0, 0)) << i;
    step(0);
  }
}

TEST_F(MemoryProtocolTest, AMessageOfAnotherKindIsReported) {
  const Values sent = some_values(10);
  Values received(11);
  (void)send(0, 1, sent);
  const Work work = receive(1, 0, received);
  step(1);
  EXPECT_EQ(error_of(work).find("it sends 10 x int32 with tag 0, this rank receives 11 x int32") !=
                std::string::npos,
            true)
      << error_of(work);
}

TEST_F(MemoryProtocolTest, ARankSendsToItself) {
  const Values sent = some_values(long_count);
  Values received(long_count);
  EXPECT_TRUE(send(0, 0, sent).is_success());
  EXPECT_TRUE(receive(0, 0, received).is_success());
  EXPECT_EQ(received, sent);
  const Work posted = receive(0, 0, received, 3);
  EXPECT_TRUE(send(0, 0, sent, 3).is_success());
  EXPECT_TRUE(posted.is_success());
}

class ThreeRanks : public MemoryProtocolTest {
 protected:
  ThreeRanks() : MemoryProtocolTest(3) {}
};

// Seeded: all orders of sends, receives and looks, of all lengths, from named ranks and from any.
TEST_F(ThreeRanks, MessagesArriveInOrderWhateverTheOrderOfTheSteps) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    struct Receive {
      Values values;
      Work work;
    };
    std::vector<Values> sent;
    sent.reserve(200);
    std::vector<Work> sends;
    std::list<Receive> from_named;  // by rank 2 from rank 0
    std::list<Receive> from_any;    // by rank 2 from rank 1, in any order of the ranks
    const std::size_t counts[] = {0, 1, 100, 20'000};
    const auto post = [&](std::list<Receive>& receives, int from, Tag tag, std::size_t count) {
      receives.push_back({Values(count), Work()});
      receives.back().work = receive(2, from, receives.back().values, tag);
    };
    constexpr int messages = 60;
    int sent_of[2] = {};
    int posted[2] = {};
    const auto count_of = [&](int from, int number) {
      return counts[static_cast<std::size_t>(number * 7 + from + static_cast<int>(seed)) % std::size(counts)];
    };
    while (sent_of[0] + sent_of[1] + posted[0] + posted[1] < 4 * messages) {
      const int from = static_cast<int>(random() % 2);
      switch (random() % 4) {
        case 0:
          if (sent_of[from] < messages) {
            const int number = sent_of[from]++;
            sent.push_back(some_values(count_of(from, number), number));
            sends.push_back(send(from, 2, sent.back(), static_cast<Tag>(from)));
          }
          break;
        case 1:
          if (posted[from] < messages) {
            const int number = posted[from]++;
            post(from == 0 ? from_named : from_any, from == 0 ? 0 : any_source, static_cast<Tag>(from),
                 count_of(from, number));
          }
          break;
        default:
          step(static_cast<int>(random() % 3));
      }
    }
    step_all(50);
    for (const Work& work : sends) EXPECT_TRUE(work.is_success());
    for (auto* const receives : {&from_named, &from_any}) {
      const int from = receives == &from_named ? 0 : 1;
      int number = 0;
      for (const Receive& one : *receives) {
        ASSERT_TRUE(one.work.is_success()) << seed;
        EXPECT_EQ(one.work.source_rank(), from);
        EXPECT_EQ(one.values, some_values(count_of(from, number), number));
        ++number;
      }
    }
    for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(protocol(rank).is_busy());
  }
}

}  // namespace
}  // namespace dlaunch::internal
