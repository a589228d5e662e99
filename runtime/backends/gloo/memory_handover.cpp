#include "runtime/backends/gloo/memory_handover.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/sockets/attempt.h"
#include "runtime/sockets/host_socket.h"

namespace dlaunch::internal {

namespace {

// A process whose host is busy; a stopped one costs its peers this time once a group.
constexpr auto answer_limit = std::chrono::seconds(5);

// Room for one descriptor.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

Descriptor receive_descriptor(int socket) {
  char byte = 0;
  iovec place{&byte, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  return Descriptor([&] {
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
    const cmsghdr* const head = CMSG_FIRSTHDR(&message);
    if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(sizeof(int)))
      return -1;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
  });
}

void send_descriptor(int socket, int fd) {
  char byte = 1;
  iovec place{&byte, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  (void)sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);  // else the peer sees the end
}

}  // namespace

Descriptor request_memory(const Contact& there, const ProcessId& self, Deadline deadline,
                          const LossCheck& check) {
  const Deadline end = std::min(deadline, deadline_after(answer_limit));
  Descriptor socket = dial_on_host(there, self, end, check);
  if (!socket.is_open()) return socket;
  const Attempt attempt(socket.get(), end, check);
  const ContextId context_id = there.context_id;
  if (!attempt.send_all({reinterpret_cast<const char*>(&context_id), sizeof context_id}) ||
      !attempt.await(POLLIN))
    return Descriptor([] { return -1; });
  return receive_descriptor(socket.get());
}

void MemoryRequests::add(std::uint64_t token, Descriptor socket) {
  if (all_.size() == limit) all_.erase(all_.begin());
  all_.emplace(token, std::move(socket));
}

void MemoryRequests::answer(std::uint64_t token, const std::function<int(ContextId)>& file_of) {
  const auto found = all_.find(token);
  if (found == all_.end()) return;
  const Descriptor socket = std::move(found->second);
  all_.erase(found);
  ContextId context_id = 0;
  if (recv(socket.get(), &context_id, sizeof context_id, MSG_DONTWAIT) != sizeof context_id) return;
  const int fd = file_of(context_id);
  if (fd >= 0) send_descriptor(socket.get(), fd);
}

}  // namespace dlaunch::internal
