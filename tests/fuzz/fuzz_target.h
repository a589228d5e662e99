// What each fuzz target begins with: libFuzzer's entry, its input, and the check of an invariant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

// The bytes of one input. A target may take the first ones to choose what it does with the rest.
class FuzzInput {
 public:
  explicit FuzzInput(std::span<const std::uint8_t> bytes) : rest_(std::as_bytes(bytes)) {}

  // The next byte; 0 if there is none left.
  std::uint8_t choice() {
    if (rest_.empty()) return 0;
    const auto first = std::to_integer<std::uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return first;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return rest_; }
  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(rest_.data()), rest_.size()};
  }

 private:
  std::span<const std::byte> rest_;
};

inline void require(bool condition) {
  if (!condition) std::abort();
}

namespace {
void fuzz(FuzzInput input);  // each target defines it
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz(FuzzInput({data, size}));
  return 0;
}
