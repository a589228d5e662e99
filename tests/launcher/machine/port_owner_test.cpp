// Which process listens at a port.
#include "launcher/machine/port_owner.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dlaunch::launcher {
namespace {

// Listens at a free port of the loopback interface.
class Listener {
 public:
  explicit Listener(int family = AF_INET) : fd_(socket(family, SOCK_STREAM, 0)) {
    sockaddr_in6 at{};  // of all zeros: any address of the family, any port
    at.sin6_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin6_port);
  }
  ~Listener() { close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

TEST(PortOwner, IsTheProcessThatListensThere) {
  const Listener listener;
  const auto owner = find_port_owner(listener.port());
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->pid, getpid());
  EXPECT_EQ(owner->program, "launcher_test");
}

TEST(PortOwner, IsFoundAtAnIpv6PortToo) {
  const Listener listener(AF_INET6);
  const auto owner = find_port_owner(listener.port());
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->pid, getpid());
}

TEST(PortOwner, NoneIfNobodyListens) {
  std::uint16_t port = 0;
  {
    const Listener listener;
    port = listener.port();
  }
  EXPECT_FALSE(find_port_owner(port));
}

TEST(PortOwner, IsNamedInAnErrorOfAnAddressInUse) {
  const Listener listener;
  const Error in_use{ErrorKind::in_use, "cannot listen on", "[::]:1", "address already in use",
                     "choose another"};
  EXPECT_EQ(name_port_owner(in_use, listener.port()).message(),
            "cannot listen on [::]:1: address already in use by process " + std::to_string(getpid()) +
                " (launcher_test); choose another");
  const Error other{ErrorKind::network, "cannot listen on", "[::]:1", "no such device", ""};
  EXPECT_EQ(name_port_owner(other, listener.port()).message(), other.message());
}

}  // namespace
}  // namespace dlaunch::launcher
