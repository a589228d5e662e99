// libFuzzer: MNIST's files. First byte even: the rest is compressed first, so that the fuzzer gets past gzip;
// odd: the rest is the file itself.
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <string>

#include "examples/train_mnist/data_error.h"
#include "examples/train_mnist/idx.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

void fuzz(FuzzInput input) {
  const bool packs = input.choice() % 2 == 0;
  const std::string_view content = input.text();
  const int file = memfd_create("fuzz_idx", MFD_CLOEXEC);
  require(file >= 0);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (packs) {
    const gzFile packed = gzopen(path.c_str(), "wb1");
    require(packed != nullptr);
    if (!content.empty()) require(gzwrite(packed, content.data(), static_cast<unsigned>(content.size())) > 0);
    require(gzclose(packed) == Z_OK);
  } else {
    require(write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
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
}

}  // namespace
