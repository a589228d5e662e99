#include "runtime/sockets/pending_connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {

void PendingConnections::add(std::uint64_t token, Descriptor socket) {
  if (all_.size() == limit) {
    const auto silent = std::ranges::find_if(all_, [](const auto& entry) { return !entry.second.handshake; });
    all_.erase(silent == all_.end() ? all_.begin() : silent);
  }
  all_.emplace(token,
               PendingConnection{std::move(socket), std::chrono::steady_clock::now() + handshake_timeout});
}

std::optional<PendingConnections::Member> PendingConnections::authenticate(std::uint64_t token,
                                                                           const Contact& self) {
  const auto found = all_.find(token);
  if (found == all_.end()) return std::nullopt;
  const HandshakeState outcome = progress(found->second, self);
  if (outcome == HandshakeState::waits) return std::nullopt;
  PendingConnection pending = std::move(found->second);
  all_.erase(found);
  if (outcome == HandshakeState::failed) return std::nullopt;
  return Member{std::move(pending.socket), pending.handshake->claimed()};
}

// Bytes after the proof stay in the socket.
PendingConnections::HandshakeState PendingConnections::progress(PendingConnection& pending,
                                                                const Contact& self) {
  std::array<char, opening_size> bytes;
  for (;;) {
    const std::size_t wanted = (pending.handshake ? answer_size : opening_size) - pending.received.size();
    const ssize_t got = recv(pending.socket.get(), bytes.data(), wanted, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return HandshakeState::waits;
    if (got <= 0) return HandshakeState::failed;
    pending.received.append(bytes.data(), static_cast<std::size_t>(got));
    if (!pending.handshake && !ServerHandshake::may_begin(pending.received)) return HandshakeState::failed;
    if (static_cast<std::size_t>(got) < wanted) continue;
    const std::string whole = std::exchange(pending.received, {});
    if (pending.handshake)
      return pending.handshake->accepts(whole) ? HandshakeState::passed : HandshakeState::failed;
    pending.handshake = ServerHandshake::begin(whole, self.id, self.key);
    if (!pending.handshake) return HandshakeState::failed;
    const std::string& challenge = pending.handshake->challenge();
    const ssize_t sent =
        send(pending.socket.get(), challenge.data(), challenge.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(challenge.size())) return HandshakeState::failed;
  }
}

void PendingConnections::drop_expired() {
  std::erase_if(all_, [](const auto& entry) { return has_passed(entry.second.until); });
}

}  // namespace dlaunch::internal
