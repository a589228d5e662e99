#include "store/base/random.h"

#include <sys/random.h>

#include <cstring>

namespace dlaunch::store {

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t have = 0; have < count;) {
    const ssize_t got = getrandom(bytes.data() + have, count - have, 0);
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::uint64_t random_u64() {
  std::uint64_t number = 0;
  const std::string bytes = random_bytes(sizeof number);
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

}  // namespace dlaunch::store
