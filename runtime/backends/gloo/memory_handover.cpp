#include "runtime/backends/gloo/memory_handover.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/sockets/attempt.h"
#include "runtime/sockets/host_socket.h"
#include "runtime/sockets/pass_descriptor.h"

namespace dlaunch::internal {

namespace {

// A process whose host is busy; a stopped one costs its peers this time once a group.
constexpr auto answer_limit = std::chrono::seconds(5);

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
  Passed answer = receive_descriptors(socket.get());
  if (answer.files.empty()) return Descriptor([] { return -1; });
  return std::move(answer.files.front());
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
  if (fd >= 0) (void)send_descriptors(socket.get(), {&fd, 1});  // else the peer sees the end
}

}  // namespace dlaunch::internal
