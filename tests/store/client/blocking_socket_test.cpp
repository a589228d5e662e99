#include "store/client/blocking_socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "tests/store/client/reserved_port.h"

namespace dlaunch::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A server with one connection, whose end the test holds as a descriptor.
class BlockingSocketTest : public testing::Test {
 protected:
  BlockingSocketTest() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    const auto connected = socket_.connect({"127.0.0.1", ntohs(address.sin_port)}, in_a_minute());
    EXPECT_TRUE(connected.ok());
    peer_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    EXPECT_GE(peer_, 0);
  }
  ~BlockingSocketTest() override {
    close_peer();
    close(listener_);
  }
  void close_peer() {
    if (peer_ >= 0) close(std::exchange(peer_, -1));
  }
  static TimePoint in_a_minute() { return steady_now() + seconds(60); }
  static TimePoint now() { return steady_now(); }

  void answer(const std::string& bytes) const {
    EXPECT_EQ(write(peer_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  // The next bytes, or why there are none.
  std::string receive(std::size_t size, TimePoint deadline) {
    std::string bytes(size, ' ');
    const auto received = socket_.receive(bytes.data(), size, deadline);
    return received ? bytes : received.error().why;
  }

  BlockingSocket socket_;
  int listener_;
  int peer_ = -1;
};

TEST_F(BlockingSocketTest, ReceivesJustWhatIsAskedFor) {
  const std::string large(20'000, 'x');  // more than the socket's own buffer
  answer("ab" + large + "c");
  EXPECT_EQ(receive(1, in_a_minute()), "a");
  EXPECT_EQ(receive(large.size() + 1, in_a_minute()), "b" + large);
  EXPECT_EQ(receive(1, in_a_minute()), "c");
}

TEST_F(BlockingSocketTest, SendsAllBytes) {
  ASSERT_TRUE(socket_.send(as_byte_span(std::string_view("hello")), in_a_minute()).ok());
  std::array<char, 8> bytes{};
  EXPECT_EQ(recv(peer_, bytes.data(), 5, MSG_WAITALL), 5);
  EXPECT_EQ(std::string(bytes.data()), "hello");
}

TEST_F(BlockingSocketTest, AReceiveThatTimedOutMayBeRepeated) {
  char byte = ' ';
  const auto early = socket_.receive(&byte, 1, now());
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().kind, ErrorKind::timeout);
  answer("x");
  EXPECT_EQ(receive(1, in_a_minute()), "x");
}

TEST_F(BlockingSocketTest, APeerThatDoesNotReadIsATimeout) {
  const std::string much(64U << 20, 'x');  // more than the kernel's buffers
  const auto sent = socket_.send(as_byte_span(much), now() + milliseconds(50));
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().kind, ErrorKind::timeout);
}

TEST_F(BlockingSocketTest, AClosedConnectionIsAnErrorAndNoSignal) {
  close_peer();
  EXPECT_EQ(receive(1, in_a_minute()), "closed by the server");
  const std::string much(64U << 20, 'x');
  const auto sent = socket_.send(as_byte_span(much), in_a_minute());  // SIGPIPE would end this process
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().kind, ErrorKind::network);
  EXPECT_TRUE(socket_.is_open()) << "the caller closes it";
  socket_.close();
  EXPECT_FALSE(socket_.is_open());
}

TEST_F(BlockingSocketTest, ARefusedConnectionIsNamed) {
  const test::ReservedPort reserved;
  const auto connected = socket_.connect(reserved.address(), in_a_minute());
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().kind, ErrorKind::network);
  EXPECT_EQ(connected.error().why, "connection refused");
  EXPECT_FALSE(socket_.is_open());
}

}  // namespace
}  // namespace dlaunch::store
