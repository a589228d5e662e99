#include "examples/train_mnist/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "examples/train_mnist/data_error.h"
#include "tests/examples/scratch_dir.h"

namespace mnist {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes big_endian(std::initializer_list<std::uint32_t> numbers) {
  Bytes bytes;
  for (const std::uint32_t n : numbers)
    for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes.push_back(static_cast<std::uint8_t>(n >> shift));
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes images(std::uint32_t count) {
  Bytes pixels(count * pixels_per_image);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 7 % 251);
  return big_endian({0x803, count, 28, 28}) + pixels;
}

Bytes labels(const Bytes& values) {
  return big_endian({0x801, static_cast<std::uint32_t>(values.size())}) + values;
}

class Idx : public testing::Test {
 protected:
  // A gzip'd file of these bytes; its path.
  std::string gzipped(const Bytes& bytes, const std::string& name = "x.gz") {
    std::string path = dir_.file(name);
    gzFile file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
              static_cast<int>(bytes.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
    return path;
  }

  // The reason a function gives, without the path; the path has to be in it, and one line has to be enough.
  template <class Function>
  std::string complaint(Function function, const std::string& path) {
    try {
      function(path);
    } catch (const DataError& error) {
      const std::string text = error.what();
      const std::string start = "cannot read " + path + ": ";
      EXPECT_TRUE(text.starts_with(start)) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos);
      return text.substr(std::min(start.size(), text.size()));
    }
    return "(no complaint)";
  }

  ScratchDir dir_;
};

TEST_F(Idx, reads_what_was_written) {
  const Bytes file = images(3);
  EXPECT_EQ(read_images(gzipped(file)), Bytes(file.begin() + 16, file.end()));
  EXPECT_EQ(read_labels(gzipped(labels({0, 9, 4}))), Bytes({0, 9, 4}));
}

TEST_F(Idx, reads_more_than_one_chunk) {
  EXPECT_EQ(read_images(gzipped(images(5000))).size(), 5000 * pixels_per_image);
}

TEST_F(Idx, names_a_file_that_is_not_there) {
  EXPECT_EQ(complaint(read_images, dir_.file("absent.gz")), "No such file or directory");
}

TEST_F(Idx, refuses_what_is_no_file) {
  EXPECT_EQ(complaint(read_images, dir_.path()), "not a regular file");
  write_file(dir_.file("empty.gz"), {});
  EXPECT_EQ(complaint(read_images, dir_.file("empty.gz")), "empty");
}

TEST_F(Idx, refuses_what_is_not_compressed) {
  const Bytes plain = labels({1, 2, 3});
  write_file(dir_.file("plain.gz"), std::as_bytes(std::span(plain)));
  EXPECT_EQ(complaint(read_labels, dir_.file("plain.gz")), "not gzip'd");
}

TEST_F(Idx, refuses_another_magic_number) {
  EXPECT_EQ(complaint(read_images, gzipped(labels(Bytes(100)))),
            "not an IDX file of images: magic number 0x00000801 instead of 0x00000803");
  EXPECT_EQ(complaint(read_labels, gzipped(images(1))),
            "not an IDX file of labels: magic number 0x00000803 instead of 0x00000801");
}

TEST_F(Idx, refuses_every_length_but_the_right_one) {
  const Bytes whole = images(1);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string why = complaint(
        read_images, gzipped(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))));
    EXPECT_TRUE(why.starts_with("truncated: ")) << length << ": " << why;
  }
  EXPECT_EQ(complaint(read_images, gzipped(whole + Bytes{0})), "more than the 784 bytes its header promises");
  EXPECT_EQ(complaint(read_images, gzipped(big_endian({0x803, 2, 28, 28}) + Bytes(1000))),
            "truncated: its header promises 1568 bytes, only 1000 follow");
}

TEST_F(Idx, bounds_sizes_before_it_takes_memory) {
  EXPECT_EQ(complaint(read_images, gzipped(big_endian({0x803, 0xffffffff, 28, 28}))),
            "its header claims 4294967295 images, more than the 1000000 allowed");
  EXPECT_EQ(complaint(read_images, gzipped(big_endian({0x803, 1, 28, 0xffffffff}))),
            "images of 28 x 4294967295 pixels instead of 28 x 28");
  EXPECT_EQ(complaint(read_images, gzipped(big_endian({0x803, max_images, 28, 28}))),
            "truncated: its header promises 784000000 bytes, only 0 follow");
}

TEST_F(Idx, refuses_an_empty_set) {
  EXPECT_EQ(complaint(read_images, gzipped(images(0))), "holds no images");
  EXPECT_EQ(complaint(read_labels, gzipped(labels({}))), "holds no labels");
}

TEST_F(Idx, refuses_labels_that_are_no_digits) {
  EXPECT_EQ(complaint(read_labels, gzipped(labels({1, 2, 10, 200}))),
            "label 10 at position 2; only 0 to 9 exist");
}

TEST_F(Idx, finds_damage_anywhere_in_the_compressed_file) {
  const std::string path = gzipped(images(2));
  std::vector<char> good;
  {
    std::ifstream file(path, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(file), {});
  }
  const Bytes pixels = read_images(path);
  const std::string broken = dir_.file("broken.gz");
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<char> bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write_file(broken, std::as_bytes(std::span(bad)));
    // gzip does not protect bytes 4 to 9 of its header (time, hints, system): there, the data is still right.
    if (at >= 4 && at < 10) {
      EXPECT_EQ(read_images(broken), pixels);
    } else {
      EXPECT_NE(complaint(read_images, broken), "(no complaint)") << "byte " << at;
    }
  }
  for (std::size_t length = 0; length < good.size(); ++length) {
    write_file(broken, std::as_bytes(std::span(good).first(length)));
    EXPECT_NE(complaint(read_images, broken), "(no complaint)") << "length " << length;
  }
}

TEST_F(Idx, wants_as_many_labels_as_images) {
  gzipped(images(3), "train-images-idx3-ubyte.gz");
  const std::string path = gzipped(labels({1, 2}), "train-labels-idx1-ubyte.gz");
  try {
    read_training_set(dir_.path());
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()), "cannot use " + path + ": 2 labels for 3 images in " + dir_.path() +
                                             "/train-images-idx3-ubyte.gz");
  }
}

TEST(MnistData, comes_with_the_repository) {
  const std::string directory = DLAUNCH_SOURCE_DIR "/examples/data/mnist";
  EXPECT_EQ(read_training_set(directory).count(), 25'000U);
  EXPECT_EQ(read_test_set(directory).count(), 10'000U);
  // Known from the full set: the first training image is a five, the first test image a seven.
  EXPECT_EQ(read_training_set(directory).labels.front(), 5);
  EXPECT_EQ(read_test_set(directory).labels.front(), 7);
}

}  // namespace
}  // namespace mnist
