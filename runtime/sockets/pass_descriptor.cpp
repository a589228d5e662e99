#include "runtime/sockets/pass_descriptor.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace dlaunch::internal {

namespace {

// Room for one descriptor.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
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
  char byte = 1;
  iovec place{&byte, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

Passed receive_descriptor(int socket) {
  char byte = 0;
  iovec place{&byte, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t got = 0;
  Descriptor file([&] {
    do {
      got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got == 1 ? descriptor_in(message) : -1;
  });
  return {got == 1, std::move(file)};
}

}  // namespace dlaunch::internal
