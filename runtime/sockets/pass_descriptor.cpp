#include "runtime/sockets/pass_descriptor.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace dlaunch::internal {

namespace {

// One byte, with room for one descriptor.
struct Message {
  Message() {
    head.msg_iov = &place;
    head.msg_iovlen = 1;
    head.msg_control = control;
    head.msg_controllen = sizeof control;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  char byte = 1;
  iovec place{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr head{};
};

int descriptor_in(const msghdr& message) {
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(sizeof(int)))
    return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return fd;
}

}  // namespace

bool send_descriptor(int socket, int fd) {
  Message message;
  if (fd < 0) {
    message.head.msg_control = nullptr;
    message.head.msg_controllen = 0;
  } else {
    cmsghdr* const head = CMSG_FIRSTHDR(&message.head);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  }
  return sendmsg(socket, &message.head, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

Passed receive_descriptor(int socket) {
  Message message;
  ssize_t got = 0;
  Descriptor file([&] {
    do {
      got = recvmsg(socket, &message.head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got == 1 ? descriptor_in(message.head) : -1;
  });
  return {got == 1, std::move(file)};
}

}  // namespace dlaunch::internal
