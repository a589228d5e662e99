// libFuzzer: a checkpoint file. The check sum is corrected first, or nothing behind it would ever be reached.
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "examples/train_mnist/checkpoint.h"
#include "examples/train_mnist/data_error.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

void fuzz(FuzzInput input) {
  std::vector<std::byte> bytes(input.bytes().begin(), input.bytes().end());
  if (bytes.size() >= sizeof(std::uint32_t)) {
    const std::size_t before = bytes.size() - sizeof(std::uint32_t);
    const auto* start = reinterpret_cast<const unsigned char*>(bytes.data());
    const auto sum = static_cast<std::uint32_t>(crc32(0, start, static_cast<unsigned>(before)));
    std::memcpy(bytes.data() + before, &sum, sizeof sum);
  }
  try {
    const mnist::Checkpoint checkpoint = mnist::decode(bytes, "fuzz");
    require(mnist::encode(checkpoint) == bytes);
  } catch (const mnist::DataError&) {  // as expected
  }
}

}  // namespace
