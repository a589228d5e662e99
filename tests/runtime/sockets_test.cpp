// What is done to the sockets that Gloo makes, on sockets of the test's own.

#include "runtime/backends/gloo/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>

namespace {

using dlaunch::Silence;
using dlaunch::Sockets;

constexpr int peer = 7;
constexpr int enough_looks = Silence::limit / Silence::between_looks;

int checked(int result) {
  if (result < 0) throw std::runtime_error("a system call failed");
  return result;
}

sockaddr_storage listening_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  checked(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size));
  return address;
}

// Two listen, one connects to the other, as Gloo does it.
class ConnectedPair {
 public:
  ConnectedPair() {
    const int here = listener();
    const int there = listener();
    here_ = listening_address(here);
    there_ = listening_address(there);
    connecting_ = checked(socket(AF_INET, SOCK_STREAM, 0));
    checked(connect(connecting_, reinterpret_cast<const sockaddr*>(&there_), sizeof(sockaddr_in)));
    accepted_ = checked(accept(there, nullptr, nullptr));
    close(here);
    close(there);
  }
  ~ConnectedPair() {
    close(connecting_);
    close(accepted_);
  }
  ConnectedPair(const ConnectedPair&) = delete;
  ConnectedPair& operator=(const ConnectedPair&) = delete;

  [[nodiscard]] int connecting() const { return connecting_; }
  [[nodiscard]] int accepted() const { return accepted_; }
  [[nodiscard]] Sockets::Connection as_seen_by_connecting() const { return {peer, here_, there_}; }
  [[nodiscard]] Sockets::Connection as_seen_by_accepting() const { return {peer, there_, here_}; }

 private:
  static int listener() {
    const int fd = checked(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    checked(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address));
    checked(listen(fd, 1));
    return fd;
  }

  sockaddr_storage here_{};
  sockaddr_storage there_{};
  int connecting_ = -1;
  int accepted_ = -1;
};

bool closes_on_exec(int fd) { return (checked(fcntl(fd, F_GETFD)) & FD_CLOEXEC) != 0; }

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  checked(getsockopt(fd, level, name, &value, &size));
  return value;
}

bool is_kept_alive(int fd) {
  const int seconds = option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                      option(fd, IPPROTO_TCP, TCP_KEEPINTVL) * option(fd, IPPROTO_TCP, TCP_KEEPCNT);
  return option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1 && std::chrono::seconds(seconds) == Silence::limit;
}

TEST(Sockets, AreFoundOnTheConnectingSide) {
  const ConnectedPair pair;
  const Sockets sockets({pair.as_seen_by_connecting()});
  EXPECT_TRUE(closes_on_exec(pair.connecting()) && is_kept_alive(pair.connecting()));
  EXPECT_FALSE(closes_on_exec(pair.accepted()) || is_kept_alive(pair.accepted()));
}

TEST(Sockets, AreFoundOnTheAcceptingSide) {
  const ConnectedPair pair;
  const Sockets sockets({pair.as_seen_by_accepting()});
  EXPECT_TRUE(closes_on_exec(pair.accepted()) && is_kept_alive(pair.accepted()));
  EXPECT_FALSE(closes_on_exec(pair.connecting()) || is_kept_alive(pair.connecting()));
}

TEST(Sockets, OfOthersStayAsTheyAre) {
  const ConnectedPair pair;
  const ConnectedPair other;
  const Sockets sockets({pair.as_seen_by_connecting(), pair.as_seen_by_accepting()});
  for (const int fd : {other.connecting(), other.accepted()}) {
    EXPECT_FALSE(closes_on_exec(fd) || is_kept_alive(fd));
  }
}

TEST(Sockets, BringAlongWhatWatchesThem) {
  const ConnectedPair pair;
  const int watching = checked(epoll_create1(0));
  const int other = checked(epoll_create1(0));
  epoll_event event{};
  checked(epoll_ctl(watching, EPOLL_CTL_ADD, pair.connecting(), &event));
  checked(epoll_ctl(other, EPOLL_CTL_ADD, pair.accepted(), &event));
  const Sockets sockets({pair.as_seen_by_connecting()});
  EXPECT_TRUE(closes_on_exec(watching));
  EXPECT_FALSE(closes_on_exec(other));
  close(watching);
  close(other);
}

// 0: as it should be.
int status_of_copy(bool (*is_right)(int known, int other), int known, int other) {
  const pid_t copy = checked(fork());
  if (copy == 0) _exit(is_right(known, other) ? 0 : 1);
  int status = -1;
  waitpid(copy, &status, 0);
  return status;
}

TEST(Sockets, AreClosedInACopyOfTheProcess) {
  const ConnectedPair pair;
  const Sockets sockets({pair.as_seen_by_connecting()});
  const auto only_other_is_open = [](int known, int other) {
    return fcntl(known, F_GETFD) == -1 && errno == EBADF && fcntl(other, F_GETFD) != -1;
  };
  EXPECT_EQ(status_of_copy(only_other_is_open, pair.connecting(), pair.accepted()), 0);

  // Without a word to the other side.
  char byte = 'x';
  EXPECT_EQ(write(pair.connecting(), &byte, 1), 1);
  EXPECT_EQ(read(pair.accepted(), &byte, 1), 1);
}

// Gloo closes a lost connection by itself; its number is then somebody else's.
TEST(Sockets, WhoseNumberIsAnotherOnesNowAreLeftAlone) {
  const ConnectedPair pair;
  const ConnectedPair other;
  const Sockets sockets({pair.as_seen_by_connecting()});
  checked(dup2(other.connecting(), pair.connecting()));
  const auto both_are_open = [](int reused, int original) {
    return fcntl(reused, F_GETFD) != -1 && fcntl(original, F_GETFD) != -1;
  };
  EXPECT_EQ(status_of_copy(both_are_open, pair.connecting(), other.connecting()), 0);
}

tcp_info answered_before(std::chrono::milliseconds time) {
  tcp_info info{};
  info.tcpi_last_ack_recv = static_cast<std::uint32_t>(time.count());
  return info;
}

bool is_silent_after(int looks, const tcp_info& info) {
  Silence silence;
  for (int i = 1; i < looks; ++i) silence.look(info);
  return silence.look(info);
}

TEST(Silence, IsThatOfAHostThatAcknowledgesNothing) {
  tcp_info info = answered_before(Silence::limit);
  info.tcpi_unacked = 1;
  info.tcpi_retransmits = 5;
  EXPECT_FALSE(is_silent_after(enough_looks - 1, info));
  EXPECT_TRUE(is_silent_after(enough_looks, info));
}

TEST(Silence, IsThatOfAHostThatDoesNotSayWhetherThereIsRoom) {
  tcp_info info = answered_before(Silence::limit);
  info.tcpi_probes = 3;
  EXPECT_TRUE(is_silent_after(enough_looks, info));
}

// A stopped program's kernel says so each time, which may be minutes apart.
TEST(Silence, IsNotThatOfAProgramWithoutRoom) {
  tcp_info info = answered_before(std::chrono::minutes(2));
  info.tcpi_probes = 1;
  EXPECT_FALSE(is_silent_after(100 * enough_looks, info));
}

TEST(Silence, IsNotThatOfWhoWasNotAsked) {
  EXPECT_FALSE(is_silent_after(100 * enough_looks, answered_before(std::chrono::hours(1))));
  tcp_info just_sent = answered_before(std::chrono::hours(1));
  just_sent.tcpi_unacked = 1;
  EXPECT_FALSE(is_silent_after(100 * enough_looks, just_sent));
}

TEST(Silence, EndsWithAnAnswer) {
  tcp_info info = answered_before(Silence::limit);
  info.tcpi_unacked = 1;
  info.tcpi_retransmits = 5;
  Silence silence;
  for (int i = 1; i < enough_looks; ++i) EXPECT_FALSE(silence.look(info));
  EXPECT_FALSE(silence.look(answered_before(std::chrono::seconds(0))));
  EXPECT_FALSE(silence.look(info));
}

}  // namespace
