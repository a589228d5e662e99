#include "agent/platform/status_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "store/loop/uv_loop.h"

namespace dlaunch::agent {
namespace {

// A client on the same loop: collects bytes until the socket's end, then stops the loop.
class Client final : public FdHandler {
 public:
  Client(UvLoop& loop, UvPoller& poller)
      : loop_(loop), poller_(poller), fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    const std::string name = status_socket_name(geteuid(), getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    connected = connect(fd_, reinterpret_cast<const sockaddr*>(&address), size) == 0;
    if (connected) poller_.watch(fd_, true, false, *this);
  }
  ~Client() override {
    if (connected) poller_.unwatch(fd_);
    close(fd_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void on_readable(int) override {
    char piece[4096];
    const ssize_t got = recv(fd_, piece, sizeof piece, MSG_DONTWAIT);
    if (got > 0) text.append(piece, static_cast<std::size_t>(got));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) loop_.stop();
  }
  void on_writable(int) override {}

  bool connected = false;
  std::string text;

 private:
  UvLoop& loop_;
  UvPoller& poller_;
  int fd_;
};

TEST(StatusSocket, ServesTheStatusAndCloses) {
  UvLoop loop;
  UvPoller poller(loop);
  int calls = 0;
  const std::string large(1U << 20, 'x');  // more than the socket's buffer
  const StatusSocket socket(poller, [&] { return std::to_string(++calls) + large; });
  for (const char* number : {"1", "2"}) {
    Client client(loop, poller);
    ASSERT_TRUE(client.connected);
    loop.run();
    EXPECT_EQ(client.text.size(), large.size() + 2);
    EXPECT_TRUE(client.text.starts_with(number)) << "the status of the moment";
    EXPECT_TRUE(client.text.ends_with("x\n"));
  }
}

TEST(StatusSocket, LeavesNoNameBehind) {
  UvLoop loop;
  UvPoller poller(loop);
  {
    const StatusSocket socket(poller, [] { return std::string("x"); });
  }
  const Client client(loop, poller);
  EXPECT_FALSE(client.connected);
}

// An agent works without the socket: here another object of this process has the name.
TEST(StatusSocket, WithoutANameItServesNoClient) {
  UvLoop loop;
  UvPoller poller(loop);
  const StatusSocket first(poller, [] { return std::string("first"); });
  const StatusSocket second(poller, [] { return std::string("second"); });
  Client client(loop, poller);
  loop.run();
  EXPECT_EQ(client.text, "first\n");
}

}  // namespace
}  // namespace dlaunch::agent
