// Descriptors that travel with a message on a Unix socket (SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace dlaunch::agent {

// Room for `count` of them. Outlives the call of sendmsg() or recvmsg() that its header is for.
template <std::size_t count>
class PassedDescriptors {
 public:
  void send_with(msghdr& header, const std::array<int, count>& fds) {
    receive_with(header);
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(message), fds.data(), sizeof fds);
  }

  void receive_with(msghdr& header) {
    header.msg_control = room_.data();
    header.msg_controllen = room_.size();
  }

  // The descriptors that arrived; -1 for each that did not.
  static std::array<int, count> received(msghdr& header) {
    std::array<int, count> fds;
    fds.fill(-1);
    if (const cmsghdr* message = CMSG_FIRSTHDR(&header); message && message->cmsg_type == SCM_RIGHTS) {
      std::memcpy(fds.data(), CMSG_DATA(message),
                  std::min<std::size_t>(sizeof fds, message->cmsg_len - CMSG_LEN(0)));
    }
    return fds;
  }

 private:
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * count)> room_{};
};

}  // namespace dlaunch::agent
