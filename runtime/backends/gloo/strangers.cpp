#include "runtime/backends/gloo/strangers.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "runtime/base/deadline.h"

namespace dlaunch {

void Strangers::add(std::uint64_t token, Descriptor socket) {
  if (all_.size() == limit) {
    const auto silent = std::ranges::find_if(all_, [](const auto& entry) { return !entry.second.trial; });
    all_.erase(silent == all_.end() ? all_.begin() : silent);
  }
  all_.emplace(token, Stranger{std::move(socket), std::chrono::steady_clock::now() + patience});
}

std::optional<Strangers::Member> Strangers::hear(std::uint64_t token, const Contact& self) {
  const auto found = all_.find(token);
  if (found == all_.end()) return std::nullopt;
  const Progress outcome = progress(found->second, self);
  if (outcome == Progress::waits) return std::nullopt;
  Stranger stranger = std::move(found->second);
  all_.erase(found);
  if (outcome == Progress::failed) return std::nullopt;
  return Member{std::move(stranger.socket), stranger.trial->claimed()};
}

// What follows the proof stays in the socket.
Strangers::Progress Strangers::progress(Stranger& stranger, const Contact& self) {
  std::array<char, opening_size> bytes;
  for (;;) {
    const std::size_t wanted = (stranger.trial ? answer_size : opening_size) - stranger.received.size();
    const ssize_t got = recv(stranger.socket.get(), bytes.data(), wanted, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Progress::waits;
    if (got <= 0) return Progress::failed;
    stranger.received.append(bytes.data(), static_cast<std::size_t>(got));
    if (!stranger.trial && !Trial::may_begin(stranger.received)) return Progress::failed;
    if (static_cast<std::size_t>(got) < wanted) continue;
    const std::string whole = std::exchange(stranger.received, {});
    if (stranger.trial) return stranger.trial->is_passed_by(whole) ? Progress::passed : Progress::failed;
    stranger.trial = Trial::begin(whole, self.id, self.key);
    if (!stranger.trial) return Progress::failed;
    const std::string& challenge = stranger.trial->challenge();
    const ssize_t sent =
        send(stranger.socket.get(), challenge.data(), challenge.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(challenge.size())) return Progress::failed;
  }
}

void Strangers::drop_late() {
  std::erase_if(all_, [](const auto& entry) { return has_passed(entry.second.until); });
}

}  // namespace dlaunch
