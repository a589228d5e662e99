#include "agent/control/handshake.h"

#include "store/base/hmac.h"

namespace dlaunch::agent {
namespace {

std::string mac_of(const std::string& secret, const char* who, const std::string& member,
                   const std::string& coordinator) {
  return hmac_sha256(secret, std::string("dlaunch ") + who + member + coordinator);
}

Error refusal(std::string why) {
  return {ErrorKind::refused, "", "", std::move(why),
          "give this job's secret (--token-file, DLAUNCH_TOKEN) to dlaunch"};
}

}  // namespace

std::string explain_bare_refusal(bool has_secret) {
  return has_secret
             ? "it reports the reason only to nodes that have proved the secret; see the log of that agent"
             : "this node has no secret; if the job has one, give it to this node (--token-file, "
               "DLAUNCH_TOKEN); otherwise see the log of that agent";
}

Result<Proof> MemberHandshake::answer(const Challenge& challenge) const {
  const bool knows =
      challenge.nonce.size() == nonce_size &&
      are_equal_secrets(challenge.mac, mac_of(secret_, "coordinator", nonce_, challenge.nonce));
  if (!knows) return refusal("it has another secret than this node (--token-file, DLAUNCH_TOKEN)");
  return Proof{mac_of(secret_, "member", nonce_, challenge.nonce)};
}

Result<std::optional<Message>> CoordinatorHandshake::hear(const Message& message) {
  if (const auto* hello = std::get_if<Hello>(&message);
      hello && theirs_.empty() && hello->nonce.size() == nonce_size) {
    theirs_ = hello->nonce;
    return std::optional<Message>(Challenge{nonce_, mac_of(secret_, "coordinator", theirs_, nonce_)});
  }
  const auto* proof = std::get_if<Proof>(&message);
  if (proof && !theirs_.empty()) {
    done_ = are_equal_secrets(proof->mac, mac_of(secret_, "member", theirs_, nonce_));
    if (!done_) return refusal("its secret is not the job's (--token-file, DLAUNCH_TOKEN)");
    return std::optional<Message>{};
  }
  return refusal("this job has a secret; give it to that node (--token-file, DLAUNCH_TOKEN)");
}

}  // namespace dlaunch::agent
