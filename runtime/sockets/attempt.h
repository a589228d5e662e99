// One attempt to reach a listener, and to prove to it that this process belongs to the job.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/base/deadline.h"
#include "runtime/sockets/handshake.h"

namespace dlaunch::internal {

// Of a socket that does not block.
class Attempt {
 public:
  Attempt(int socket, Deadline deadline, const LossCheck& check)
      : socket_(socket), deadline_(deadline), check_(check) {}

  // Waits until the socket is ready; false: the deadline has passed.
  bool await(short events) const {
    for (;;) {
      const auto turn = std::min<std::chrono::milliseconds>(between_checks, time_left(deadline_));
      pollfd ready{socket_, events, 0};
      if (poll(&ready, 1, static_cast<int>(turn.count())) > 0) return true;
      if (has_passed(deadline_)) return false;
      if (check_) check_();
    }
  }

  // Waits a moment; false: the deadline has passed.
  bool pause() const {
    poll(nullptr, 0, 2);
    if (check_) check_();
    return !has_passed(deadline_);
  }

  bool send_all(const std::string& bytes) const {
    return send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  // None: the connection has ended before, or the deadline has passed.
  std::optional<std::string> receive(std::size_t count) const {
    std::string bytes(count, '\0');
    for (std::size_t have = 0; have < count;) {
      if (!await(POLLIN)) return std::nullopt;
      const ssize_t got = recv(socket_, bytes.data() + have, count - have, 0);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return std::nullopt;
      have += static_cast<std::size_t>(got);
    }
    return bytes;
  }

 private:
  static constexpr auto between_checks = std::chrono::milliseconds(200);

  const int socket_;
  const Deadline deadline_;
  const LossCheck& check_;
};

inline bool prove(const Contact& there, const ProcessId& self, const Attempt& attempt) {
  const ClientHandshake claim(there, self);
  if (!attempt.send_all(claim.opening())) return false;
  const std::optional<std::string> challenge = attempt.receive(challenge_size);
  if (!challenge) return false;
  const std::optional<std::string> answer = claim.answer_to(*challenge);
  return answer && attempt.send_all(*answer);
}

}  // namespace dlaunch::internal
