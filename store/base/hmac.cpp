#include "store/base/hmac.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include <cstdint>

namespace dlaunch::store {
namespace {

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view message) {
  static_assert(mac_size == SHA256_DIGEST_SIZE);
  hmac_sha256_ctx context;
  hmac_sha256_set_key(&context, key.size(), bytes_of(key));
  hmac_sha256_update(&context, message.size(), bytes_of(message));
  std::string mac(mac_size, '\0');
  hmac_sha256_digest(&context, mac.size(), reinterpret_cast<std::uint8_t*>(mac.data()));
  return mac;
}

bool are_equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && memeql_sec(a.data(), b.data(), a.size()) != 0;
}

}  // namespace dlaunch::store
