// libFuzzer: the first 16 bytes select how the rest is sent.
#include <cstddef>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/store_fuzz_client.h"

namespace {

void fuzz(FuzzInput input) {
  constexpr std::size_t choices = 16;
  const std::string_view text = input.text();
  dlaunch::test::send_random_requests(text.substr(0, choices), text.substr(std::min(choices, text.size())));
}

}  // namespace
