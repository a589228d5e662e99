#include "runtime/sockets/host_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "runtime/sockets/attempt.h"
#include "store/base/hex.h"

namespace dlaunch::internal {

namespace {

struct LocalAddress {
  sockaddr_un bytes{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

// A name that begins with a zero byte is abstract.
LocalAddress address_of(const ProcessId& id) {
  const std::string name = "dlaunch/" + to_hex(id);
  LocalAddress address;
  address.bytes.sun_family = AF_UNIX;
  std::memcpy(address.bytes.sun_path + 1, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Descriptor new_socket() {
  return Descriptor([] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

}  // namespace

Descriptor listen_on_host(const ProcessId& id) {
  Descriptor listener = new_socket();
  const LocalAddress address = address_of(id);
  if (!listener.is_open() || bind(listener.get(), address.get(), address.size) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0)
    return Descriptor([] { return -1; });
  return listener;
}

Descriptor dial_on_host(const Contact& there, const ProcessId& self, Deadline deadline,
                        const LossCheck& check) {
  Descriptor none([] { return -1; });
  const LocalAddress address = address_of(there.id);
  Descriptor socket = new_socket();
  if (!socket.is_open()) return none;
  const Attempt attempt(socket.get(), deadline, check);
  while (connect(socket.get(), address.get(), address.size) != 0) {
    if (errno != EAGAIN) return none;
    if (!attempt.pause()) return none;  // its queue of connections is full
  }
  if (!prove(there, self, attempt)) return none;
  return socket;
}

}  // namespace dlaunch::internal
