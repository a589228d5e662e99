// How the two ends of a connection between agents show each other that they know the job's secret, without
// telling it: each answers a number that the other has drawn (challenge and response, both ways). Pure.
//
//   member       Hello{its nonce}
//   coordinator  Challenge{its nonce, HMAC(secret, "coordinator" + both)}
//   member       Proof{HMAC(secret, "member" + both)}, and then Join
//
// A job without a secret begins with Join. What was recorded on one connection is of no use on another. What
// follows is neither signed nor hidden: who can change what is under way on the network can still do harm.
#pragma once

#include <optional>
#include <string>

#include "agent/control/messages.h"
#include "store/base/result.h"

namespace dlaunch::agent {

inline constexpr std::size_t nonce_size = 32;

// All that a job with a secret tells a node that has not proved it; the reason is in the log of the agent
// that refused. What this node can add of its own: whether it has a secret.
inline constexpr const char* bare_refusal = "refused";
std::string explain_bare_refusal(bool has_secret);

class MemberHandshake {
 public:
  // `nonce` has nonce_size bytes that nobody can guess. Without a secret there is nothing to do.
  MemberHandshake(std::string secret, std::string nonce)
      : secret_(std::move(secret)), nonce_(std::move(nonce)) {}

  [[nodiscard]] bool is_needed() const { return !secret_.empty(); }
  [[nodiscard]] Hello hello() const { return {nonce_}; }
  // An error where the other end does not know the secret.
  [[nodiscard]] Result<Proof> answer(const Challenge& challenge) const;

 private:
  std::string secret_;
  std::string nonce_;
};

class CoordinatorHandshake {
 public:
  CoordinatorHandshake(std::string secret, std::string nonce)
      : secret_(std::move(secret)), nonce_(std::move(nonce)), done_(secret_.empty()) {}

  // The member may speak.
  [[nodiscard]] bool is_done() const { return done_; }
  // Before that: what to answer its next message with, if anything; an error says why it is refused.
  Result<std::optional<Message>> hear(const Message& message);

 private:
  std::string secret_;
  std::string nonce_;
  std::string theirs_;
  bool done_;
};

}  // namespace dlaunch::agent
