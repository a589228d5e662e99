#include "examples/train_mnist/idx.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "examples/train_mnist/data_error.h"

namespace mnist {
namespace {

constexpr std::uint32_t images_magic = 0x00000803;  // unsigned bytes, three dimensions
constexpr std::uint32_t labels_magic = 0x00000801;  // unsigned bytes, one dimension
constexpr std::size_t chunk_bytes = 1 << 20;

// A gzip'd file, read front to back. Everything it throws names the file.
class GzipFile {
 public:
  explicit GzipFile(const std::string& path) : path_(path) {
    // gzopen waits for ever on a pipe without a writer, and reads nothing sensible from a directory.
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) fail(std::generic_category().message(errno));
    if (!S_ISREG(info.st_mode)) fail("not a regular file");
    if (info.st_size == 0) fail("empty");
    file_ = gzopen(path.c_str(), "rbe");
    if (file_ == nullptr) fail(std::generic_category().message(errno));
    if (gzdirect(file_) != 0) fail("not gzip'd");
  }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;
  ~GzipFile() {
    if (file_ != nullptr) gzclose(file_);
  }

  // Fills `bytes` as far as the file goes; returns how many bytes came. Throws on corrupt data.
  std::size_t read(std::span<std::uint8_t> bytes) {
    std::size_t got = 0;
    while (got < bytes.size()) {
      const auto wanted = static_cast<unsigned>(std::min(bytes.size() - got, chunk_bytes));
      const int n = gzread(file_, bytes.data() + got, wanted);
      if (n < 0) fail(last_error());
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }

  // True if nothing follows. zlib compares the checksum at the end of the file here, so this also finds
  // damage that decompressed without complaint.
  bool at_end() {
    std::array<std::uint8_t, 1> extra{};
    const bool ended = read(extra) == 0;
    int code = Z_OK;
    gzerror(file_, &code);
    if (ended && code != Z_OK) fail(last_error());
    return ended;
  }

  [[noreturn]] void fail(const std::string& why) {
    // A constructor that throws runs no destructor.
    if (file_ != nullptr) gzclose(file_);
    file_ = nullptr;
    throw DataError("cannot read", path_, why);
  }

 private:
  std::string last_error() {
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (code == Z_BUF_ERROR) return "truncated: the compressed data ends too early";
    if (code == Z_ERRNO) return std::generic_category().message(errno);
    // zlib puts the path in front; ours does that already.
    std::string why = text;
    if (why.starts_with(path_ + ": ")) why.erase(0, path_.size() + 2);
    return "corrupt: " + why;
  }

  std::string path_;
  gzFile file_ = nullptr;
};

std::string hex(std::uint32_t value) {
  std::array<char, 11> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

std::uint32_t read_u32(GzipFile& file) {
  std::array<std::uint8_t, 4> b{};
  if (file.read(b) != b.size()) file.fail("truncated: it ends within its header");
  return static_cast<std::uint32_t>(b[0]) << 24 | static_cast<std::uint32_t>(b[1]) << 16 |
         static_cast<std::uint32_t>(b[2]) << 8 | static_cast<std::uint32_t>(b[3]);
}

// The magic number and the count, both checked.
std::size_t read_count(GzipFile& file, std::uint32_t magic, const std::string& things) {
  const std::uint32_t found = read_u32(file);
  if (found != magic)
    file.fail("not an IDX file of " + things + ": magic number " + hex(found) + " instead of " + hex(magic));
  const std::size_t count = read_u32(file);
  if (count == 0) file.fail("holds no " + things);
  if (count > max_images)
    file.fail("its header claims " + std::to_string(count) + " " + things + ", more than the " +
              std::to_string(max_images) + " allowed");
  return count;
}

// The `total` bytes after the header, and nothing else.
std::vector<std::uint8_t> read_payload(GzipFile& file, std::size_t total) {
  std::vector<std::uint8_t> bytes;
  // By and by: a header that lies about its size costs no more memory than the file has data.
  while (bytes.size() < total) {
    const std::size_t before = bytes.size();
    const std::size_t piece = std::min(total - before, std::max(before, chunk_bytes));
    bytes.resize(before + piece);
    const std::size_t got = file.read(std::span(bytes).subspan(before));
    if (got < piece)
      file.fail("truncated: its header promises " + std::to_string(total) + " bytes, only " +
                std::to_string(before + got) + " follow");
  }
  if (!file.at_end()) file.fail("more than the " + std::to_string(total) + " bytes its header promises");
  return bytes;
}

Dataset read_pair(const std::string& directory, const std::string& name) {
  const std::string images_path = directory + "/" + name + "-images-idx3-ubyte.gz";
  const std::string labels_path = directory + "/" + name + "-labels-idx1-ubyte.gz";
  Dataset data{.pixels = read_images(images_path), .labels = read_labels(labels_path)};
  const std::size_t images = data.pixels.size() / pixels_per_image;
  if (images != data.labels.size())
    throw DataError("cannot use", labels_path,
                    std::to_string(data.labels.size()) + " labels for " + std::to_string(images) +
                        " images in " + images_path);
  return data;
}

}  // namespace

std::vector<std::uint8_t> read_images(const std::string& path) {
  GzipFile file(path);
  const std::size_t count = read_count(file, images_magic, "images");
  const std::uint32_t rows = read_u32(file);
  const std::uint32_t columns = read_u32(file);
  if (rows != image_side || columns != image_side)
    file.fail("images of " + std::to_string(rows) + " x " + std::to_string(columns) +
              " pixels instead of 28 x 28");
  return read_payload(file, count * pixels_per_image);
}

std::vector<std::uint8_t> read_labels(const std::string& path) {
  GzipFile file(path);
  std::vector<std::uint8_t> labels = read_payload(file, read_count(file, labels_magic, "labels"));
  const auto wrong =
      std::find_if(labels.begin(), labels.end(), [](std::uint8_t label) { return label >= classes; });
  if (wrong != labels.end())
    file.fail("label " + std::to_string(*wrong) + " at position " + std::to_string(wrong - labels.begin()) +
              "; only 0 to 9 exist");
  return labels;
}

Dataset read_training_set(const std::string& directory) { return read_pair(directory, "train"); }
Dataset read_test_set(const std::string& directory) { return read_pair(directory, "t10k"); }

}  // namespace mnist
