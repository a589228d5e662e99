// One connection between two processes, both ends of which are in this one. No other thread reads or writes:
// each step is the test's.

#include "runtime/backends/gloo/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using Bytes = std::vector<std::byte>;

// What an end has received, in order: a frame's kind and slot.
using Arrival = std::pair<std::uint32_t, std::uint64_t>;

class Recorder final : public FrameHandler {
 public:
  void on_frame(Connection& /*connection*/, const Frame& frame, std::span<const std::byte> bytes) override {
    arrivals.emplace_back(frame.kind, frame.number);
    contents.emplace_back(bytes.begin(), bytes.end());
    const bool ends_a_message = frame.kind == Frame::done || frame.kind == Frame::dropped;
    if (ends_a_message && !receives[frame.number].empty()) receives[frame.number].pop_front();
  }
  std::shared_ptr<Incoming> find_receive(Connection& /*connection*/, const Frame& frame) override {
    arrivals.emplace_back(frame.kind, frame.number);
    contents.emplace_back();
    const auto& of_slot = receives[frame.number];
    return of_slot.empty() ? nullptr : of_slot.front();
  }
  void request_write(Connection& /*connection*/) override { ++write_requests; }
  void request_writable(Connection& /*connection*/, bool waits) override { awaits_room = waits; }
  void on_memory_released() override {}

  std::vector<Arrival> arrivals;
  std::vector<Bytes> contents;
  std::map<std::uint64_t, std::deque<std::shared_ptr<Incoming>>> receives;  // by slot
  int write_requests = 0;
  bool awaits_room = false;
};

struct End {
  explicit End(int fd)
      : connection(std::make_shared<Connection>(recorder, Descriptor([fd] { return fd; }), "peer", 5)) {}

  void send(const Frame& frame, const Bytes& bytes = {}) {
    EndpointLock lock(mutex);
    connection->send(lock, frame, bytes);
  }
  void send(const std::shared_ptr<Outgoing>& message) {
    EndpointLock lock(mutex);
    connection->send(lock, message);
  }
  void write() {
    EndpointLock lock(mutex);
    connection->room_came();
    connection->write(lock);
  }
  std::optional<std::string> read() {
    EndpointLock lock(mutex);
    return connection->read(lock);
  }

  std::mutex mutex;
  Recorder recorder;
  std::shared_ptr<Connection> connection;
};

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    here_ = std::make_unique<End>(ends[0]);
    there_ = std::make_unique<End>(ends[1]);
  }

  // Both ends write and read until the condition holds.
  void run_until(const std::function<bool()>& condition) {
    const Deadline limit = test::soon();
    while (!condition()) {
      ASSERT_FALSE(has_passed(limit));
      here_->write();
      ASSERT_EQ(there_->read(), std::nullopt);
      there_->write();
      ASSERT_EQ(here_->read(), std::nullopt);
    }
  }

  std::unique_ptr<End> here_;
  std::unique_ptr<End> there_;
};

Frame frame_of(Frame::Kind kind, std::uint64_t number, std::size_t length = 0) {
  Frame frame;
  frame.kind = kind;
  frame.number = number;
  frame.length = static_cast<std::uint32_t>(length);
  return frame;
}

// Each page has a value of its own. (Byte by byte would be slow without optimisation.)
Bytes bytes_of(std::size_t size, int seed) {
  constexpr std::size_t page = 1000;
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; i += page) {
    std::memset(&bytes[i], static_cast<int>(i / page) * 31 + seed, std::min(page, size - i));
  }
  return bytes;
}

bool is_same(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

constexpr std::byte no_bytes{0};

std::shared_ptr<Outgoing> outgoing_of(const Bytes& bytes, std::uint64_t slot) {
  const auto message = std::make_shared<Outgoing>();
  message->head.number = slot;
  message->memory = bytes.empty() ? &no_bytes : bytes.data();  // null: reclaimed
  message->size = bytes.size();
  return message;
}

std::shared_ptr<Incoming> receive_into(Bytes& bytes) {
  const auto message = std::make_shared<Incoming>();
  message->memory = bytes.data();
  message->size = bytes.size();
  return message;
}

constexpr std::size_t longer_than_the_socket = std::size_t{2} << 20U;

TEST_F(ConnectionTest, FramesArriveWholeAndInOrder) {
  std::vector<Bytes> sent;
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, std::size_t{20'000}, Frame::longest_whole}) {
    for (int i = 0; i < 5; ++i) {
      sent.push_back(bytes_of(length, i));
      here_->send(frame_of(Frame::eager, sent.size(), length), sent.back());
    }
  }
  run_until([&] { return there_->recorder.arrivals.size() == sent.size(); });
  EXPECT_EQ(there_->recorder.contents, sent);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(there_->recorder.arrivals[i], Arrival(Frame::eager, i + 1));
  }
}

// The sender may use its memory again as soon as send() has returned.
TEST_F(ConnectionTest, AFrameThatWaitsForRoomIsACopy) {
  constexpr int count = 100;
  Bytes draft;
  for (int i = 0; i < count; ++i) {
    draft = bytes_of(Frame::longest_whole, i);
    here_->send(frame_of(Frame::eager, static_cast<std::uint64_t>(i), draft.size()), draft);
    std::ranges::fill(draft, std::byte{0});
  }
  EXPECT_TRUE(here_->recorder.awaits_room);
  run_until([&] { return there_->recorder.arrivals.size() == count; });
  EXPECT_FALSE(here_->recorder.awaits_room);
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(there_->recorder.contents[static_cast<std::size_t>(i)], bytes_of(Frame::longest_whole, i));
  }
}

// The endpoint's thread asks itself to write later, when it does not hold the groups' state.
TEST_F(ConnectionTest, QueuedFramesAreWrittenByTheEndpoint) {
  {
    const EndpointLock lock(here_->mutex);
    here_->connection->queue(frame_of(Frame::gone, 1));
  }
  EXPECT_EQ(here_->recorder.write_requests, 1);
  EXPECT_EQ(there_->read(), std::nullopt);
  EXPECT_TRUE(there_->recorder.arrivals.empty());
  run_until([&] { return !there_->recorder.arrivals.empty(); });
  EXPECT_EQ(there_->recorder.arrivals, std::vector<Arrival>{Arrival(Frame::gone, 1)});
}

TEST_F(ConnectionTest, AMessageGoesFromMemoryToMemory) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, Frame::longest_part, Frame::longest_part + 1,
                                 longer_than_the_socket}) {
    const Bytes out = bytes_of(size, 7);
    Bytes in(size + 1);
    const auto receive = receive_into(in);
    there_->recorder.receives[9] = {receive};
    there_->recorder.arrivals.clear();
    const auto message = outgoing_of(out, 9);
    here_->send(message);
    const auto is_over = [&] {
      return !there_->recorder.arrivals.empty() && there_->recorder.arrivals.back().first == Frame::done;
    };
    run_until(is_over);
    EXPECT_TRUE(message->done);
    EXPECT_EQ(receive->received, size);
    EXPECT_TRUE(is_same(Bytes(in.begin(), in.end() - 1), out));
    EXPECT_EQ(in.back(), std::byte{0});
    const std::size_t parts =
        std::max<std::size_t>(1, (size + Frame::longest_part - 1) / Frame::longest_part);
    EXPECT_EQ(there_->recorder.arrivals.size(), parts + 1);
  }
}

// No short frame waits longer than one part takes.
TEST_F(ConnectionTest, AShortFrameOvertakesALongMessage) {
  const Bytes out = bytes_of(longer_than_the_socket, 1);
  Bytes in(out.size());
  there_->recorder.receives[9] = {receive_into(in)};
  here_->send(outgoing_of(out, 9));
  here_->send(frame_of(Frame::credit, 1));
  run_until([&] {
    return !there_->recorder.arrivals.empty() && there_->recorder.arrivals.back().first == Frame::done;
  });
  const auto& arrivals = there_->recorder.arrivals;
  const auto credit = std::ranges::find(arrivals, Arrival(Frame::credit, 1)) - arrivals.begin();
  EXPECT_LT(credit, static_cast<std::ptrdiff_t>(arrivals.size()) - 2);
  EXPECT_TRUE(is_same(in, out));
}

TEST_F(ConnectionTest, MessagesOfSlotsTakeTurnsAndThoseOfOneSlotKeepTheirOrder) {
  const Bytes out = bytes_of(longer_than_the_socket, 1);
  for (const std::uint64_t second_slot : {1U, 2U}) {
    Bytes in(out.size());
    Bytes other(out.size());
    there_->recorder.arrivals.clear();
    there_->recorder.receives[1] = {receive_into(in)};
    there_->recorder.receives[second_slot].push_back(receive_into(other));
    here_->send(outgoing_of(out, 1));
    here_->send(outgoing_of(out, second_slot));
    const auto& arrivals = there_->recorder.arrivals;
    const auto ends = [&] {
      std::vector<std::ptrdiff_t> places;
      for (std::size_t i = 0; i < arrivals.size(); ++i) {
        if (arrivals[i].first == Frame::done) places.push_back(static_cast<std::ptrdiff_t>(i));
      }
      return places;
    };
    run_until([&] { return ends().size() == 2; });
    EXPECT_TRUE(is_same(in, out));
    EXPECT_TRUE(is_same(other, out));
    const auto parts = static_cast<std::ptrdiff_t>(out.size() / Frame::longest_part);
    if (second_slot == 1) {
      EXPECT_EQ(ends()[0], parts);  // no part of the second is before it
    } else {
      EXPECT_LE(ends()[1] - ends()[0], 5);  // they end together
    }
  }
}

// Its sender gave up: the rest has no meaning, and the memory is the program's again.
TEST_F(ConnectionTest, AReclaimedSendEndsAsDropped) {
  Bytes out = bytes_of(longer_than_the_socket, 1);
  Bytes in(out.size());
  there_->recorder.receives[9] = {receive_into(in)};
  const auto message = outgoing_of(out, 9);
  here_->send(message);
  EXPECT_EQ(there_->read(), std::nullopt);
  {
    const EndpointLock lock(here_->mutex);
    EXPECT_FALSE(message->is_read);  // no thread is writing
    message->memory = nullptr;
  }
  out = Bytes();
  here_->send(frame_of(Frame::credit, 1));
  const auto& arrivals = there_->recorder.arrivals;
  run_until([&] {
    return std::ranges::find(arrivals, Arrival(Frame::dropped, 9)) != arrivals.end() &&
           std::ranges::find(arrivals, Arrival(Frame::credit, 1)) != arrivals.end();
  });
  EXPECT_EQ(std::ranges::count(arrivals, Arrival(Frame::done, 9)), 0);
  EXPECT_LT(arrivals.size(), in.size() / Frame::longest_part);  // not all of it was sent
}

// What still comes is read and dropped, and the next frame is found behind it.
TEST_F(ConnectionTest, AReclaimedReceiveTakesNoMoreBytes) {
  const Bytes out = bytes_of(longer_than_the_socket, 1);
  Bytes in(out.size());
  const auto receive = receive_into(in);
  there_->recorder.receives[9] = {receive};
  here_->send(outgoing_of(out, 9));
  EXPECT_EQ(there_->read(), std::nullopt);
  ASSERT_GT(receive->received, 0U);
  receive->memory = nullptr;
  std::memset(in.data(), 0, in.size());
  here_->send(frame_of(Frame::credit, 1));
  const auto& arrivals = there_->recorder.arrivals;
  run_until([&] { return std::ranges::find(arrivals, Arrival(Frame::done, 9)) != arrivals.end(); });
  run_until([&] { return std::ranges::find(arrivals, Arrival(Frame::credit, 1)) != arrivals.end(); });
  EXPECT_TRUE(is_same(in, Bytes(in.size())));
}

TEST_F(ConnectionTest, APartThatNobodyAskedForIsDropped) {
  const Bytes out = bytes_of(100'000, 1);
  here_->send(outgoing_of(out, 9));
  here_->send(frame_of(Frame::credit, 1));
  const auto& arrivals = there_->recorder.arrivals;
  run_until([&] { return std::ranges::find(arrivals, Arrival(Frame::credit, 1)) != arrivals.end(); });
  EXPECT_EQ(arrivals, (std::vector<Arrival>{{Frame::data, 9}, {Frame::done, 9}, {Frame::credit, 1}}));
}

TEST_F(ConnectionTest, BytesThatAreNoFrameEndIt) {
  const std::string junk(64, '\xff');
  ASSERT_EQ(::send(here_->connection->socket(), junk.data(), junk.size(), 0), 64);
  EXPECT_EQ(there_->read(), "it sent bytes that are no frame of this version of libdlaunch");
}

TEST_F(ConnectionTest, TheEndOfThePeerIsItsReason) {
  here_->send(frame_of(Frame::credit, 1));
  here_.reset();
  EXPECT_EQ(there_->read(), std::nullopt);  // what it had sent comes first
  EXPECT_EQ(there_->recorder.arrivals.size(), 1U);
  EXPECT_EQ(there_->read(), "the peer closed it");
}

TEST_F(ConnectionTest, ALostOneSendsNothingMore) {
  const Bytes out = bytes_of(longer_than_the_socket, 1);
  const auto message = outgoing_of(out, 9);
  here_->send(message);
  {
    const EndpointLock lock(here_->mutex);
    here_->connection->mark_lost();
  }
  EXPECT_TRUE(here_->connection->is_lost());
  EXPECT_EQ(message.use_count(), 1);  // the message's memory is free
  const auto late = outgoing_of(out, 10);
  here_->send(frame_of(Frame::credit, 1));
  here_->send(late);
  EXPECT_FALSE(late->under_way);
  here_->write();
  EXPECT_EQ(here_->read(), std::nullopt);
  EXPECT_FALSE(here_->connection->is_silent());
  std::optional<std::string> reason;
  while (!reason) reason = there_->read();
  EXPECT_EQ(reason, "the peer closed it");
  const auto& arrivals = there_->recorder.arrivals;
  EXPECT_EQ(std::ranges::count_if(arrivals, [](const Arrival& one) { return one.first != Frame::data; }), 0);
}

TEST_F(ConnectionTest, AFlushWaitsForRoomUntilItsDeadline) {
  const Bytes out = bytes_of(longer_than_the_socket, 1);
  here_->send(outgoing_of(out, 9));
  EndpointLock lock(here_->mutex);
  const Deadline deadline = deadline_after(std::chrono::milliseconds(20));
  here_->connection->flush(lock, deadline);  // nobody reads
  EXPECT_TRUE(has_passed(deadline));
  std::thread reader([&] {
    while (there_->recorder.arrivals.empty() || there_->recorder.arrivals.back().first != Frame::done) {
      if (there_->read()) return;
    }
  });
  here_->connection->flush(lock, test::soon());
  reader.join();
  EXPECT_EQ(there_->recorder.arrivals.back(), Arrival(Frame::done, 9));
}

}  // namespace
}  // namespace dlaunch::internal
