#include "runtime/sockets/pass_descriptor.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dlaunch::internal {

namespace {

// One byte, with room for the descriptors.
struct Message {
  Message() {
    head.msg_iov = &place;
    head.msg_iovlen = 1;
    head.msg_control = control;
    head.msg_controllen = CMSG_LEN(most_passed_descriptors * sizeof(int));  // room for no more
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  char byte = 1;
  iovec place{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(most_passed_descriptors * sizeof(int))] = {};
  msghdr head{};
};

// Returns how many there are.
std::size_t descriptors_in(const msghdr& message, std::array<int, most_passed_descriptors>& fds) {
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) return 0;
  const std::size_t size = head->cmsg_len - CMSG_LEN(0);
  std::memcpy(fds.data(), CMSG_DATA(head), size);
  return size / sizeof(int);
}

}  // namespace

bool send_descriptors(int socket, std::span<const int> fds) {
  Message message;
  if (fds.empty()) {
    message.head.msg_control = nullptr;
    message.head.msg_controllen = 0;
  } else {
    message.head.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&message.head);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  return sendmsg(socket, &message.head, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

Passed receive_descriptors(int socket) {
  Message message;
  ssize_t got = 0;
  std::array<int, most_passed_descriptors> fds{};
  std::size_t count = 0;
  Descriptor first([&] {
    do {
      got = recvmsg(socket, &message.head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got == 1) count = descriptors_in(message.head, fds);
    return count > 0 ? fds[0] : -1;
  });
  Passed passed{got == 1, {}};
  passed.files.reserve(count);
  if (count > 0) passed.files.push_back(std::move(first));
  for (std::size_t i = 1; i < count; ++i) passed.files.emplace_back([&] { return fds[i]; });
  return passed;
}

}  // namespace dlaunch::internal
