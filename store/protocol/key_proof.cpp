#include "store/protocol/key_proof.h"

#include <algorithm>

namespace dlaunch::store {
namespace {

std::string mac_of(const std::string& key, const char* side, std::string_view client,
                   std::string_view server) {
  return hmac_sha256(key, std::string("dlaunch store ").append(side).append(client).append(server));
}

}  // namespace

std::string store_key(const std::string& secret) { return hmac_sha256(secret, "dlaunch store key"); }

Result<std::string> KeyClient::answer(std::string_view challenge) const {
  const std::string_view theirs = challenge.substr(0, std::min(key_nonce_size, challenge.size()));
  const std::string_view mac = challenge.substr(theirs.size());
  if (!are_equal_secrets(mac, mac_of(key_, "server", nonce_, theirs)))
    return Error{ErrorKind::refused, "", "", "it has another secret", "give both the same --token-file"};
  return mac_of(key_, "client", nonce_, theirs);
}

KeyServer::Verdict KeyServer::take(ByteSpan& bytes, std::string& answer) {
  if (theirs_.empty()) {
    if (!fill(bytes, key_opening_size)) return Verdict::undecided;
    if (!partial_.starts_with(key_greeting)) return refuse("its proof has an unknown version");
    theirs_ = partial_.substr(key_greeting.size());
    partial_.clear();
    answer.append(nonce_).append(mac_of(key_, "server", theirs_, nonce_));
  }
  if (!fill(bytes, mac_size)) return Verdict::undecided;
  if (!are_equal_secrets(partial_, mac_of(key_, "client", theirs_, nonce_)))
    return refuse("its secret differs from the store's (--token-file, DLAUNCH_TOKEN)");
  return Verdict::proven;
}

KeyServer::Verdict KeyServer::refuse(std::string_view why) {
  why_ = why;
  return Verdict::refused;
}

// Whether the buffer has so many bytes.
bool KeyServer::fill(ByteSpan& bytes, std::size_t size) {
  const std::size_t taken = std::min(bytes.size(), size - partial_.size());
  partial_.append(as_text(bytes.first(taken)));
  bytes = bytes.subspan(taken);
  return partial_.size() == size;
}

}  // namespace dlaunch::store
