// Bounded reading and writing of bytes: the only place that checks a length from outside. All integers are
// little-endian, as on the wire in PyTorch's store and dlaunch's own protocol.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "store/base/namespaces.h"

namespace dlaunch::store {

static_assert(std::endian::native == std::endian::little, "the wire formats assume a little-endian host");

using ByteSpan = std::span<const std::byte>;

inline ByteSpan as_byte_span(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads values from the front of a span. A read beyond the end or over a limit makes the reader bad (and
// every later read with it) and yields zero or empty; an announced length alone never allocates memory. Views
// returned by text() point into the span given to the constructor.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_integral_v<T> T integer() {
    T value{};
    if (!take(sizeof value)) return value;
    std::memcpy(&value, bytes_.data() + at_ - sizeof value, sizeof value);
    return value;
  }
  std::uint8_t u8() { return integer<std::uint8_t>(); }
  std::uint32_t u32() { return integer<std::uint32_t>(); }
  std::uint64_t u64() { return integer<std::uint64_t>(); }
  std::int64_t i64() { return integer<std::int64_t>(); }

  // Bytes preceded by their length (u64), at most `limit` of them.
  std::string_view text(std::uint64_t limit) {
    const std::uint64_t length = u64();
    if (length > limit) over_limit_ = true;
    if (over_limit_ || !take(length)) return {};
    return as_text(bytes_.subspan(at_ - length, length));
  }

  [[nodiscard]] bool ok() const { return !short_ && !over_limit_; }
  [[nodiscard]] bool ran_short() const { return short_ && !over_limit_; }  // more bytes could make it whole
  [[nodiscard]] bool over_limit() const { return over_limit_; }
  [[nodiscard]] std::size_t consumed() const { return at_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  [[nodiscard]] bool done() const { return ok() && left() == 0; }

 private:
  bool take(std::uint64_t count) {
    if (!ok() || count > left()) {
      short_ = true;
      return false;
    }
    at_ += static_cast<std::size_t>(count);
    return true;
  }

  ByteSpan bytes_;
  std::size_t at_ = 0;
  bool short_ = false;
  bool over_limit_ = false;
};

// Appends values to the caller's string.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}

  template <class T>
  requires std::is_integral_v<T> ByteWriter& integer(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    out_.append(raw, sizeof value);
    return *this;
  }
  ByteWriter& u8(std::uint8_t value) { return integer(value); }
  ByteWriter& u32(std::uint32_t value) { return integer(value); }
  ByteWriter& u64(std::uint64_t value) { return integer(value); }
  ByteWriter& i64(std::int64_t value) { return integer(value); }
  ByteWriter& text(std::string_view value) {
    u64(value.size());
    out_.append(value);
    return *this;
  }

 private:
  std::string& out_;
};

}  // namespace dlaunch::store
