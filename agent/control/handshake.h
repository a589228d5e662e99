// How the two ends of a connection between agents prove to each other that they know the job's secret,
// without sending it: each answers a random number of the other (challenge and response, both ways). Pure.
//
//   member       Hello{its nonce}
//   coordinator  Challenge{its nonce, HMAC(secret, "coordinator" + both)}
//   member       Proof{HMAC(secret, "member" + both)}, and then Join
//
// A job without a secret begins with Join. A recording of one connection is of no use on another. The
// messages that follow are neither signed nor encrypted: an attacker who can change packets can still do harm
// (--tls).
#pragma once

#include <optional>
#include <string>

#include "agent/control/messages.h"
#include "store/base/result.h"

namespace dlaunch::agent {

inline constexpr std::size_t nonce_size = 32;

// The only reason that a job with a secret gives to a node that has not proved it; the true one is in the log
// of the agent that refused. explain_bare_refusal() adds what this node knows: whether it has a secret.
inline constexpr const char* bare_refusal = "refused";
std::string explain_bare_refusal(bool has_secret);

class MemberHandshake {
 public:
  // `nonce`: nonce_size bytes that nobody can guess. Without a secret there is nothing to do.
  MemberHandshake(std::string secret, std::string nonce)
      : secret_(std::move(secret)), nonce_(std::move(nonce)) {}

  [[nodiscard]] bool is_needed() const { return !secret_.empty(); }
  [[nodiscard]] Hello hello() const { return {nonce_}; }
  // An error if the other end does not know the secret.
  [[nodiscard]] Result<Proof> answer(const Challenge& challenge) const;

 private:
  std::string secret_;
  std::string nonce_;
};

class CoordinatorHandshake {
 public:
  CoordinatorHandshake(std::string secret, std::string nonce)
      : secret_(std::move(secret)), nonce_(std::move(nonce)), done_(secret_.empty()) {}

  // The member has proved the secret, or there is none.
  [[nodiscard]] bool is_done() const { return done_; }
  // Before that: the answer to its next message, if any; an error is the reason to refuse the member.
  Result<std::optional<Message>> hear(const Message& message);

 private:
  std::string secret_;
  std::string nonce_;
  std::string theirs_;
  bool done_;
};

}  // namespace dlaunch::agent
