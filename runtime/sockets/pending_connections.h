// Connections whose peers have not proved yet that they belong to the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/sockets/descriptor.h"
#include "runtime/sockets/handshake.h"

namespace dlaunch::internal {

// Does not block. Used with the endpoint's mutex held.
class PendingConnections {
 public:
  static constexpr std::size_t limit = 128;
  static constexpr auto handshake_timeout = std::chrono::seconds(5);

  // REQUIRES: `token` is higher than the earlier ones. If there are too many connections, drops the oldest of
  // those that have not sent a valid opening; only members of the job can send one.
  void add(std::uint64_t token, Descriptor socket);
  [[nodiscard]] bool has(std::uint64_t token) const { return all_.contains(token); }
  [[nodiscard]] bool empty() const { return all_.empty(); }

  // Reads what `token` has sent. Returns the connection if its peer has proved itself, and drops it if the
  // proof is wrong.
  struct Member {
    Descriptor socket;
    ProcessId id;
  };
  std::optional<Member> authenticate(std::uint64_t token, const Contact& self);

  void drop_expired();  // those after handshake_timeout
  void drop_all() { all_.clear(); }

 private:
  struct PendingConnection {
    Descriptor socket;
    Deadline until;
    std::string received = {};
    std::optional<ServerHandshake> handshake = {};
  };
  enum class HandshakeState : std::uint8_t { waits, passed, failed };
  static HandshakeState progress(PendingConnection& pending, const Contact& self);

  std::map<std::uint64_t, PendingConnection> all_;  // by token, the oldest first
};

}  // namespace dlaunch::internal
