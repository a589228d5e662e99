#include "store/base/base64.h"

#include <nettle/base64.h>

#include <cstdint>

namespace dlaunch::store {

std::string to_base64(std::string_view bytes) {
  std::string text(BASE64_ENCODE_RAW_LENGTH(bytes.size()), '\0');
  base64_encode_raw(text.data(), bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  base64_decode_ctx context;
  base64_decode_init(&context);
  std::string bytes(BASE64_DECODE_LENGTH(text.size()), '\0');
  std::size_t size = 0;
  if (!base64_decode_update(&context, &size, reinterpret_cast<std::uint8_t*>(bytes.data()), text.size(),
                            text.data()) ||
      !base64_decode_final(&context))
    return std::nullopt;
  bytes.resize(size);
  // Nettle skips white space; RFC 4648 forbids it. A text with white space is longer than its bytes need.
  if (BASE64_ENCODE_RAW_LENGTH(size) != text.size()) return std::nullopt;
  return bytes;
}

}  // namespace dlaunch::store
