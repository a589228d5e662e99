// A TCP client's peer, byte by byte: for servers other than dlaunch's, or faulty ones.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "store/base/address.h"

namespace dlaunch::test {

using namespace store;

class FakeServer {
 public:
  // One connection, as the server sees it; closed by the destructor.
  class Visit {
   public:
    explicit Visit(int fd) : fd_(fd) {}
    ~Visit() { close(fd_); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    // The bytes of one read; empty: the client has closed.
    [[nodiscard]] std::string receive_some() const {
      std::string bytes(4096, '\0');
      const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
      EXPECT_GE(got, 0) << "the client is silent";
      bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
      return bytes;
    }
    [[nodiscard]] std::string receive(std::size_t size) const {
      std::string bytes(size, '\0');
      const ssize_t got = recv(fd_, bytes.data(), size, MSG_WAITALL);
      EXPECT_EQ(got, static_cast<ssize_t>(size));
      return bytes;
    }
    void send(std::string_view bytes) const {
      EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    }

   private:
    const int fd_;
  };
  using Play = std::function<void(Visit&)>;

  // Plays one part for each connection, in their order; after the last one it stops listening.
  explicit FakeServer(std::vector<Play> parts) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const timeval patience{.tv_sec = 60, .tv_usec = 0};  // also of accepted connections
    EXPECT_EQ(setsockopt(listener_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    EXPECT_EQ(listen(listener_, 10), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, parts = std::move(parts)] {
      for (const Play& part : parts) {
        const int fd = accept(listener_, nullptr, nullptr);
        EXPECT_GE(fd, 0) << "nobody came";
        if (fd < 0) break;
        Visit visit(fd);
        part(visit);
      }
      close(listener_);
    });
  }
  ~FakeServer() { thread_.join(); }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  [[nodiscard]] Address address() const { return {"127.0.0.1", port_}; }

 private:
  const int listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace dlaunch::test
