#include "store/base/entropy.h"

#include <sys/random.h>

#include <cstring>

namespace dlaunch {

std::string draw_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t have = 0; have < count;) {
    const ssize_t got = getrandom(bytes.data() + have, count - have, 0);
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::uint64_t draw_number() {
  std::uint64_t number = 0;
  const std::string bytes = draw_bytes(sizeof number);
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

}  // namespace dlaunch
