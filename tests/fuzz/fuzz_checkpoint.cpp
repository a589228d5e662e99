// libFuzzer: a checkpoint file. The check sum is corrected first, or nothing behind it would ever be reached.
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "examples/train_mnist/checkpoint.h"
#include "examples/train_mnist/data_error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  if (size >= sizeof(std::uint32_t)) {
    const std::size_t before = size - sizeof(std::uint32_t);
    const auto sum = static_cast<std::uint32_t>(crc32(0, data, static_cast<unsigned>(before)));
    std::memcpy(bytes.data() + before, &sum, sizeof sum);
  }
  try {
    const mnist::Checkpoint checkpoint = mnist::decode(bytes, "fuzz");
    if (mnist::encode(checkpoint) != bytes) std::abort();
  } catch (const mnist::DataError&) {
    return 0;
  }
  return 0;
}
