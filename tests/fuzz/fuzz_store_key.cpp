// libFuzzer: the first 8 bytes select how the rest is sent to a store with a key.
#include <cstddef>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/key_fuzz_client.h"

namespace {

void fuzz(FuzzInput input) {
  constexpr std::size_t choices = 8;
  const std::string_view text = input.text();
  dlaunch::test::send_random_proofs(text.substr(0, choices), text.substr(std::min(choices, text.size())));
}

}  // namespace
