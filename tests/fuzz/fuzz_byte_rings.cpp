// libFuzzer: hostile contents of the memory of a connection: whatever stands there, a side that reads and
// writes must not crash, hang, or touch other memory. The input: steps, in which the other side writes some
// bytes somewhere, and this one then does what a connection does.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/shared_memory/byte_rings.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::internal;

// This side; false: it ends the connection.
bool step(ByteRings& side, std::uint8_t what, std::vector<std::byte>& place) {
  const std::span<std::byte> part = std::span(place).first(what % 64U * 4000U);
  if (what % 4 == 0) {
    const auto put = side.write(part);
    if (!put) return false;
    require(*put <= part.size());
    (void)side.await_room();
  } else {
    const auto got = side.read(part);
    if (!got) return false;
    require(*got <= part.size());
    (void)side.wake_writer();
  }
  (void)side.wake_other();
  (void)side.has_bytes();
  (void)side.has_room();
  (void)side.sleep_elsewhere();
  if (what == 255) side.sleep_on_bell(dlaunch::internal::deadline_after(std::chrono::milliseconds(1)));
  side.look();
  return true;
}

void fuzz(FuzzInput input) {
  std::string why;
  const int file = ByteRings::make_file(why);
  require(file >= 0);
  const auto side = ByteRings::map(file, ByteRings::Side::receiver, why);
  void* const memory = mmap(nullptr, ByteRings::file_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  require(side && memory != MAP_FAILED);
  std::vector<std::byte> place(64 * 4000);
  bool goes_on = true;
  while (goes_on && !input.bytes().empty()) {
    const std::size_t word = input.choice() % 64U;  // of the first 512 bytes, in which the words are
    std::uint64_t value = 0;
    for (unsigned i = 0, bytes = input.choice() % 9U; i < bytes; ++i) value = value << 8U | input.choice();
    std::memcpy(static_cast<std::byte*>(memory) + word * sizeof value, &value, sizeof value);
    goes_on = step(*side, input.choice(), place);
  }
  munmap(memory, ByteRings::file_size);
  close(file);
}

}  // namespace
