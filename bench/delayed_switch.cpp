// A switch whose frames come late by a fixed time, for hosts_bench.py on a kernel without netem.
//
//   delayed_switch MICROSECONDS PORT PORT...
//
// Passes what arrives at an interface on to all others, unchanged and in order. Segments that the kernel has
// not cut yet stay whole (PACKET_VNET_HDR), so that a frame costs two system calls for up to 64 KiB. Runs
// with a real-time priority, because the programs that are measured take all processors. Needs root; ends
// when killed.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <system_error>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_frame = 70'000;  // with the header of the kernel
constexpr std::size_t most_waiting = 20'000;   // frames: more are lost, as on a switch
constexpr int buffer_size = 8 << 20;

struct Frame {
  Clock::time_point due;
  std::size_t from;
  std::vector<char> bytes;
};

void check(int result, const std::string& what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
}

void set(int port, int level, int name, int value) {
  check(setsockopt(port, level, name, &value, sizeof value), "setsockopt");
}

int open_port(const std::string& name) {
  const int port = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  check(port, "socket");
  set(port, SOL_PACKET, PACKET_VNET_HDR, 1);
  set(port, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
  set(port, SOL_SOCKET, SO_RCVBUFFORCE, buffer_size);
  set(port, SOL_SOCKET, SO_SNDBUFFORCE, buffer_size);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
  if (address.sll_ifindex == 0) check(-1, name);
  check(bind(port, reinterpret_cast<const sockaddr*>(&address), sizeof address), name);
  packet_mreq all{};  // frames to other stations, too
  all.mr_ifindex = address.sll_ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  check(setsockopt(port, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all), name);
  return port;
}

class DelayedSwitch {
 public:
  DelayedSwitch(std::chrono::microseconds delay, const std::vector<std::string>& names) : delay_(delay) {
    for (const std::string& name : names) ports_.push_back({open_port(name), POLLIN, 0});
  }

  void run() {
    for (;;) {
      wait();
      for (std::size_t port = 0; port < ports_.size(); ++port) take_arrived(port);
      send_due();
    }
  }

 private:
  void wait() {
    timespec left{};
    if (!waiting_.empty()) {
      const auto until = std::max(Clock::duration::zero(), waiting_.front().due - Clock::now());
      left.tv_nsec = std::chrono::nanoseconds(until).count();  // less than a second
    }
    const int ready = ppoll(ports_.data(), ports_.size(), waiting_.empty() ? nullptr : &left, nullptr);
    if (ready < 0 && errno != EINTR) check(ready, "ppoll");
  }

  void take_arrived(std::size_t port) {
    for (;;) {
      const ssize_t size = recv(ports_[port].fd, buffer_, sizeof buffer_, 0);
      if (size < 0) return;
      if (waiting_.size() < most_waiting)
        waiting_.push_back({Clock::now() + delay_, port, {buffer_, buffer_ + size}});
    }
  }

  void send_due() {
    const auto now = Clock::now();
    for (; !waiting_.empty() && waiting_.front().due <= now; waiting_.pop_front()) {
      const Frame& frame = waiting_.front();
      for (std::size_t port = 0; port < ports_.size(); ++port) {
        // What a port does not take is lost, as on a switch.
        if (port != frame.from) (void)!send(ports_[port].fd, frame.bytes.data(), frame.bytes.size(), 0);
      }
    }
  }

  const std::chrono::microseconds delay_;
  std::vector<pollfd> ports_;
  std::deque<Frame> waiting_;  // by the time at which they are due: all wait equally long
  char buffer_[longest_frame];
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const long delay = words.empty() ? 0 : std::atol(words[0].c_str());
  if (words.size() < 3 || delay <= 0 || delay >= 1'000'000) {
    std::fprintf(stderr, "usage: delayed_switch MICROSECONDS PORT PORT...\n");
    return 2;
  }
  try {
    DelayedSwitch made(std::chrono::microseconds(delay), {words.begin() + 1, words.end()});
    prctl(PR_SET_TIMERSLACK, 1);
    const sched_param priority{.sched_priority = 1};
    check(sched_setscheduler(0, SCHED_FIFO, &priority), "sched_setscheduler");
    std::printf("ready\n");
    std::fflush(stdout);
    made.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "delayed_switch: %s\n", error.what());
    return 1;
  }
}
