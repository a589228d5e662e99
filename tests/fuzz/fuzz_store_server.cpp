// libFuzzer: the first 16 bytes select how the rest is sent.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/store_fuzz_client.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t choices = std::min<std::size_t>(size, 16);
  dlaunch::test::send_random_requests(input.substr(0, choices), input.substr(choices));
  return 0;
}
