// A stranger on the way between two processes: passes bytes on in both directions, and keeps the first ones
// that the connecting process has sent.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/sockets/dial.h"

namespace dlaunch::test {

inline internal::Descriptor connect_to_port(std::uint16_t port) {
  internal::Descriptor socket([] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  return socket;
}

class Relay {
 public:
  static constexpr std::size_t most_kept = 1024;

  explicit Relay(std::uint16_t to) : listener_(internal::listen_at("127.0.0.1")), to_(to) {
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    ends_ = true;
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] std::uint16_t port() const { return listener_.port; }
  // Of each connection so far.
  std::vector<std::string> first_bytes() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const Pair& pair : pairs_) all.push_back(pair.kept);
    return all;
  }

 private:
  struct Pair {
    internal::Descriptor from;
    internal::Descriptor to;
    std::string kept = {};
    bool is_open = true;
  };

  void run() {
    while (!ends_) {
      pollfd arrived{listener_.socket.get(), POLLIN, 0};
      if (poll(&arrived, 1, 0) == 1) {
        internal::Descriptor from = internal::accept_from(listener_.socket.get());
        const std::lock_guard lock(mutex_);
        pairs_.push_back({std::move(from), connect_to_port(to_)});
      }
      bool has_passed_some = false;
      for (Pair& pair : pairs_) {
        if (!pair.is_open) continue;
        has_passed_some |= pass(pair, pair.from.get(), pair.to.get(), true);
        has_passed_some |= pass(pair, pair.to.get(), pair.from.get(), false);
      }
      if (!has_passed_some) poll(nullptr, 0, 1);
    }
  }
  bool pass(Pair& pair, int from, int to, bool is_kept) {
    std::array<char, 65536> bytes;
    const ssize_t got = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) {
      pair.is_open = false;
      shutdown(pair.from.get(), SHUT_RDWR);
      shutdown(pair.to.get(), SHUT_RDWR);
    }
    if (got <= 0) return false;
    if (is_kept && pair.kept.size() < most_kept) {
      const std::lock_guard lock(mutex_);
      pair.kept.append(bytes.data(), std::min(static_cast<std::size_t>(got), most_kept - pair.kept.size()));
    }
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t some = send(to, bytes.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
      pollfd room{to, POLLOUT, 0};
      if (some > 0) {
        sent += some;
      } else if (errno == EAGAIN) {
        poll(&room, 1, 100);
      } else {
        return false;
      }
    }
    return true;
  }

  const internal::Listener listener_;
  const std::uint16_t to_;
  std::atomic<bool> ends_ = false;
  std::mutex mutex_;
  std::list<Pair> pairs_;
  std::thread thread_;
};

}  // namespace dlaunch::test
