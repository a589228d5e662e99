// libFuzzer: a block of letters, as another rank's messenger might send it. What is read lies in the block.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "runtime/point_to_point/letter.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> block = std::as_bytes(std::span(data, size));
  unsigned sum = 0;
  for (bool is_last = false; !is_last;) {
    const auto letter = dlaunch::read_letter(block);
    if (!letter) break;
    if (letter->carried() > dlaunch::short_message) std::abort();
    for (const std::byte byte : block.subspan(sizeof *letter, letter->carried())) {
      sum += std::to_integer<unsigned>(byte);
    }
    block = block.subspan(sizeof *letter + letter->carried());
    is_last = letter->is_last != 0;
  }
  [[maybe_unused]] static volatile unsigned read = 0;
  read = sum;
  return 0;
}
