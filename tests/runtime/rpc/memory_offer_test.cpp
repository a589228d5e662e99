// Two ends of a Unix socket agree whether they share memory.

#include "runtime/rpc/memory_offer.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/sockets/pass_descriptor.h"

namespace dlaunch::internal {
namespace {

class MemoryOffers : public testing::Test {
 protected:
  MemoryOffers() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_), 0); }
  ~MemoryOffers() override {
    for (const int end : ends_) close(end);
  }
  // What both sides have afterwards.
  std::pair<std::unique_ptr<SharedRings>, std::unique_ptr<SharedRings>> agree(bool offers, bool takes) {
    MemoryOffer offer;
    std::thread other([&] {
      while (!offer.has_come) offer = take_memory_offer(ends_[1], takes);
    });
    auto made = offer_memory(ends_[0], offers, deadline_after(std::chrono::seconds(30)), {});
    other.join();
    return {std::move(made), std::move(offer.taken)};
  }

  int ends_[2] = {-1, -1};
};

TEST_F(MemoryOffers, BothShareIt) {
  const auto [made, taken] = agree(true, true);
  ASSERT_TRUE(made && taken);
  const std::byte byte{7};
  EXPECT_EQ(made->rings->write({&byte, 1}), 1U);
  EXPECT_TRUE(taken->rings->has_bytes());
  for (const auto& [from, to] : {std::pair(made.get(), taken.get()), std::pair(taken.get(), made.get())}) {
    EXPECT_EQ(eventfd_write(from->other_event.get(), 3), 0);
    eventfd_t got = 0;
    EXPECT_EQ(eventfd_read(to->own_event.get(), &got), 0);
    EXPECT_EQ(got, 3U);
  }
}

TEST_F(MemoryOffers, NobodySharesItIfOneDoesNotWantTo) {
  for (const auto& [offers, takes] :
       {std::pair(true, false), std::pair(false, true), std::pair(false, false)}) {
    const auto [made, taken] = agree(offers, takes);
    EXPECT_FALSE(made);
    EXPECT_FALSE(taken);
  }
}

TEST_F(MemoryOffers, AnotherFileIsRefused) {
  std::string why;
  const Descriptor memory([&] { return ByteRings::make_file(why); });
  const Descriptor event([] { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
  const Descriptor blocking_event([] { return eventfd(0, EFD_CLOEXEC); });
  const int file = ends_[0];
  for (const std::vector<int>& files :
       {std::vector{file}, std::vector{file, event.get(), event.get()}, std::vector{memory.get()},
        std::vector{memory.get(), file, event.get()}, std::vector{memory.get(), event.get(), file},
        std::vector{memory.get(), blocking_event.get(), event.get()}}) {
    EXPECT_TRUE(send_descriptors(ends_[0], files));
    const MemoryOffer offer = take_memory_offer(ends_[1], true);
    EXPECT_TRUE(offer.has_come);
    EXPECT_FALSE(offer.taken);
    char answer = 9;
    EXPECT_EQ(recv(ends_[0], &answer, 1, 0), 1);
    EXPECT_EQ(answer, 0);
  }
}

TEST_F(MemoryOffers, WithoutAnAnswerThereIsNone) {
  EXPECT_THROW(offer_memory(ends_[0], true, deadline_after(std::chrono::milliseconds(5)), {}),
               DistNetworkError);
  EXPECT_FALSE(take_memory_offer(ends_[0], true).has_come);
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace dlaunch::internal
