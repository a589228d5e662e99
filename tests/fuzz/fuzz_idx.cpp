// libFuzzer: MNIST's files. First byte even: the rest is compressed first, so that the fuzzer gets past gzip;
// odd: the rest is the file itself.
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "examples/train_mnist/data_error.h"
#include "examples/train_mnist/idx.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const int file = memfd_create("fuzz_idx", MFD_CLOEXEC);
  require(file >= 0);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (data[0] % 2 == 0) {
    const gzFile packed = gzopen(path.c_str(), "wb1");
    require(packed != nullptr);
    if (size > 1) require(gzwrite(packed, data + 1, static_cast<unsigned>(size - 1)) > 0);
    require(gzclose(packed) == Z_OK);
  } else {
    require(write(file, data + 1, size - 1) == static_cast<ssize_t>(size - 1));
  }
  try {
    const auto pixels = mnist::read_images(path);
    require(!pixels.empty() && pixels.size() % mnist::pixels_per_image == 0);
  } catch (const mnist::DataError&) {
  }
  try {
    for (const std::uint8_t label : mnist::read_labels(path)) require(label < mnist::classes);
  } catch (const mnist::DataError&) {
  }
  close(file);
  return 0;
}
