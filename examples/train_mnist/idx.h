// Reads MNIST's files: IDX (a big-endian header, then one byte per value), compressed with gzip.
//
// A file comes from outside, so nothing in it is believed: sizes are bounded before memory is taken, memory
// grows only with the bytes that really arrive, and anything missing, corrupt or left over is a DataError
// that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mnist {

inline constexpr std::size_t image_side = 28;
inline constexpr std::size_t pixels_per_image = image_side * image_side;
inline constexpr std::size_t classes = 10;
inline constexpr std::size_t max_images =
    1'000'000;  // far above the full set's 60,000; bounds memory at 784 MB

// Images with their labels.
struct Dataset {
  std::vector<std::uint8_t> pixels;  // count() x 784, row by row; 0 is paper, 255 is ink
  std::vector<std::uint8_t> labels;  // count(), each 0 to 9

  [[nodiscard]] std::size_t count() const { return labels.size(); }

  // Valid as long as the data set is. Requires i < count().
  [[nodiscard]] std::span<const std::uint8_t> image(std::size_t i) const {
    return std::span(pixels).subspan(i * pixels_per_image, pixels_per_image);
  }
};

// The pixels of a gzip'd IDX file of 28 x 28 images: count x 784 bytes, at least one image. Throws DataError.
std::vector<std::uint8_t> read_images(const std::string& path);

// The labels of a gzip'd IDX file: one byte each, 0 to 9, at least one. Throws DataError.
std::vector<std::uint8_t> read_labels(const std::string& path);

// The files `<directory>/train-*.gz` and `<directory>/t10k-*.gz`. Throws DataError, also where a directory's
// images and labels differ in number.
Dataset read_training_set(const std::string& directory);
Dataset read_test_set(const std::string& directory);

}  // namespace mnist
