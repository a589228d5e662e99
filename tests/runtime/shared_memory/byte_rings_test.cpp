#include "runtime/shared_memory/byte_rings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

class TwoSides : public testing::Test {
 protected:
  TwoSides() {
    std::string why;
    file_ = ByteRings::make_file(why);
    maker_ = ByteRings::map(file_, ByteRings::Side::maker, why);
    receiver_ = ByteRings::map(file_, ByteRings::Side::receiver, why);
    EXPECT_TRUE(maker_ && receiver_) << why;
  }
  ~TwoSides() override { close(file_); }

  static std::string read_from(ByteRings& side, std::size_t most) {
    std::string text(most, '\0');
    const auto got = side.read(std::as_writable_bytes(std::span(text)));
    text.resize(got.value_or(0));
    return got ? text : "damaged";
  }
  // The words of the other side are in the first page; this one writes any of them.
  void overwrite(std::size_t at, std::uint64_t value) const {
    EXPECT_EQ(pwrite(file_, &value, sizeof value, static_cast<off_t>(at)),
              static_cast<ssize_t>(sizeof value));
  }
  static constexpr std::size_t maker_written = 64;
  static constexpr std::size_t maker_read = 128;

  int file_ = -1;
  std::unique_ptr<ByteRings> maker_;
  std::unique_ptr<ByteRings> receiver_;
};

TEST_F(TwoSides, PiecesArriveBehindEachOtherAsFarAsThereIsRoom) {
  const std::string head = "head";
  const std::string body(ByteRings::ring_size - 6, 'b');
  const std::vector<std::span<const std::byte>> pieces = {bytes_of(head), bytes_of(body), bytes_of(head)};
  EXPECT_EQ(maker_->write(pieces), ByteRings::ring_size);
  EXPECT_EQ(maker_->write(pieces), 0U);
  EXPECT_EQ(read_from(*receiver_, 2 * ByteRings::ring_size), head + body + "he");
  EXPECT_EQ(maker_->write(pieces), ByteRings::ring_size);
  EXPECT_EQ(read_from(*receiver_, 2 * ByteRings::ring_size), head + body + "he");
}

TEST_F(TwoSides, BytesArriveInBothDirections) {
  EXPECT_FALSE(receiver_->has_bytes());
  EXPECT_EQ(maker_->write(bytes_of("hello")), 5U);
  EXPECT_EQ(receiver_->write(bytes_of("back")), 4U);
  EXPECT_TRUE(receiver_->has_bytes());
  EXPECT_EQ(read_from(*receiver_, 2), "he");
  EXPECT_EQ(read_from(*receiver_, 100), "llo");
  EXPECT_EQ(read_from(*receiver_, 100), "");
  EXPECT_EQ(read_from(*maker_, 100), "back");
}

TEST_F(TwoSides, ARingTakesNoMoreThanItsSizeAndGoesRound) {
  const std::string text(ByteRings::ring_size - 10, 'a');
  EXPECT_EQ(maker_->write(bytes_of(text)), text.size());
  EXPECT_EQ(maker_->write(bytes_of("0123456789abc")), 10U);
  EXPECT_EQ(maker_->write(bytes_of("abc")), 0U);
  EXPECT_FALSE(maker_->await_room());
  EXPECT_EQ(read_from(*receiver_, text.size()), text);
  EXPECT_TRUE(maker_->has_room());
  EXPECT_EQ(maker_->write(bytes_of("abc")), 3U);
  EXPECT_EQ(read_from(*receiver_, 100), "0123456789abc");
  EXPECT_EQ(maker_->write(bytes_of(text)), text.size());
  EXPECT_EQ(read_from(*receiver_, 2 * text.size()), text);
}

TEST_F(TwoSides, OnlyASideThatSleepsElsewhereIsWokenElsewhere) {
  EXPECT_TRUE(maker_->wake_other());  // it does from the beginning
  EXPECT_FALSE(maker_->wake_other());
  receiver_->look();
  EXPECT_FALSE(maker_->wake_other());
  EXPECT_FALSE(receiver_->sleep_elsewhere());
  EXPECT_TRUE(maker_->wake_other());
  EXPECT_EQ(maker_->write(bytes_of("x")), 1U);
  EXPECT_TRUE(receiver_->sleep_elsewhere());  // there is something
}

TEST_F(TwoSides, AWriterIsWokenWhenAFullRingWasRead) {
  EXPECT_EQ(maker_->write(bytes_of("x")), 1U);
  EXPECT_EQ(read_from(*receiver_, 1), "x");
  EXPECT_FALSE(receiver_->wake_writer());
  EXPECT_EQ(maker_->write(bytes_of(std::string(ByteRings::ring_size, 'a'))), ByteRings::ring_size);
  EXPECT_FALSE(maker_->await_room());
  EXPECT_FALSE(maker_->sleep_elsewhere());
  EXPECT_EQ(read_from(*receiver_, 1), "a");
  EXPECT_TRUE(receiver_->wake_writer());
  EXPECT_TRUE(maker_->sleep_elsewhere());
  EXPECT_EQ(read_from(*receiver_, 1), "a");
  EXPECT_FALSE(receiver_->wake_writer());  // it was not full any more
}

TEST_F(TwoSides, ASleepOnTheBellEnds) {
  const Deadline limit = deadline_after(std::chrono::seconds(30));
  receiver_->look();
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      while (receiver_->has_bytes()) std::this_thread::yield();
      EXPECT_EQ(maker_->write(bytes_of("x")), 1U);
      EXPECT_FALSE(maker_->wake_other());
    }
  });
  for (int i = 0; i < 100; ++i) {
    while (!receiver_->has_bytes()) receiver_->sleep_on_bell(limit);
    EXPECT_EQ(read_from(*receiver_, 1), "x");
  }
  other.join();
  receiver_->interrupt();
  receiver_->sleep_on_bell(limit);                                         // at once
  receiver_->sleep_on_bell(deadline_after(std::chrono::milliseconds(1)));  // until then
  receiver_->part_from_other();
}

TEST_F(TwoSides, AStreamThroughTheRingIsWhole) {
  constexpr std::size_t size = 5'000'000;
  const auto value_at = [](std::size_t i) { return static_cast<std::byte>(i * 2654435761U >> 7U); };
  std::thread writer([&] {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = value_at(i);
    std::span<const std::byte> left = bytes;
    while (!left.empty())
      left = left.subspan(maker_->write(left.first(std::min<std::size_t>(left.size(), 70'001))).value());
  });
  std::vector<std::byte> place(33'333);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < size;) {
    const std::size_t got = receiver_->read(place).value();
    for (std::size_t i = 0; i < got; ++i) wrong += place[i] == value_at(at + i) ? 0 : 1;
    at += got;
  }
  writer.join();
  EXPECT_EQ(wrong, 0U);
}

TEST_F(TwoSides, PositionsThatCannotBeAreNoticed) {
  overwrite(maker_written, ByteRings::ring_size + 1);
  EXPECT_EQ(read_from(*receiver_, 10), "damaged");
  EXPECT_EQ(receiver_->write(bytes_of(std::string(ByteRings::ring_size, 'a'))), ByteRings::ring_size);
  overwrite(maker_read, ByteRings::ring_size + 1);
  EXPECT_EQ(receiver_->write(bytes_of("x")), std::nullopt);
}

TEST(ByteRings, OtherFilesAreNotMapped) {
  std::string why;
  const int plain = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(plain, static_cast<off_t>(ByteRings::file_size)), 0);
  EXPECT_EQ(ByteRings::map(plain, ByteRings::Side::receiver, why), nullptr);  // not sealed
  EXPECT_EQ(why, "what it shares is not this version's memory of a connection");
  ASSERT_EQ(fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_EQ(ByteRings::map(plain, ByteRings::Side::receiver, why), nullptr);  // not of this version
  EXPECT_EQ(ByteRings::map(-1, ByteRings::Side::receiver, why), nullptr);
  close(plain);
}

}  // namespace
}  // namespace dlaunch::internal
