#include "runtime/sockets/handshake.h"

#include <algorithm>
#include <sstream>

#include "store/base/hex.h"
#include "store/base/hmac.h"
#include "store/base/random.h"

namespace dlaunch::internal {

namespace {

// The last byte is the version.
constexpr std::string_view magic{"dlmesh\0\1", 8};

constexpr std::size_t id_meant_at = magic.size();
constexpr std::size_t id_claimed_at = id_meant_at + process_id_size;

std::string mac_of(const std::string& key, std::string_view side, std::string_view opening,
                   std::string_view nonce) {
  return hmac_sha256(key, std::string(side).append(opening).append(nonce));
}

}  // namespace

std::string to_text(const Contact& contact) {
  return to_hex(contact.id) + " " + contact.address + " " + std::to_string(contact.port) + " " +
         to_hex(contact.key) + " " + std::to_string(contact.context_id) + " " + std::to_string(contact.ranks);
}

std::optional<Contact> parse_contact(const std::string& text) {
  std::istringstream words(text);
  std::string id;
  std::string key;
  Contact contact;
  words >> id >> contact.address >> contact.port >> key >> contact.context_id >> contact.ranks;
  contact.id = from_hex(id, process_id_size);
  contact.key = from_hex(key, key_size);
  std::string more;
  if (!words || words >> more || contact.id.empty() || contact.key.empty()) return std::nullopt;
  return contact;
}

ClientHandshake::ClientHandshake(const Contact& there, const ProcessId& id)
    : key_(there.key), opening_(std::string(magic) + there.id + id + random_bytes(nonce_size)) {}

std::optional<std::string> ClientHandshake::answer_to(std::string_view challenge) const {
  const std::string_view nonce = challenge.substr(0, nonce_size);
  if (!are_equal_secrets(challenge.substr(nonce_size), mac_of(key_, "listening", opening_, nonce)))
    return std::nullopt;
  return mac_of(key_, "connecting", opening_, nonce);
}

bool ServerHandshake::may_begin(std::string_view bytes) {
  return bytes.substr(0, magic.size()) == magic.substr(0, bytes.size());
}

std::optional<ServerHandshake> ServerHandshake::begin(std::string_view opening, const ProcessId& id,
                                                      const std::string& key) {
  if (!may_begin(opening) || opening.substr(id_meant_at, process_id_size) != id) return std::nullopt;
  return ServerHandshake(opening, key);
}

ServerHandshake::ServerHandshake(std::string_view opening, const std::string& key)
    : claimed_(opening.substr(id_claimed_at, process_id_size)) {
  const std::string nonce = random_bytes(nonce_size);
  challenge_ = nonce + mac_of(key, "listening", opening, nonce);
  wanted_ = mac_of(key, "connecting", opening, nonce);
}

bool ServerHandshake::accepts(std::string_view answer) const { return are_equal_secrets(answer, wanted_); }

}  // namespace dlaunch::internal
