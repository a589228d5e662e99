// An array that takes no memory from the heap if it is short: of the parts of a call, one for each rank.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <type_traits>
#include <vector>

namespace dlaunch::internal {

template <class T, std::size_t Few = 8>
class ShortArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  // Zeros.
  explicit ShortArray(std::size_t size) requires std::is_arithmetic_v<T> : size_(size) {
    if (size > Few) {
      many_.resize(size);
    } else {
      few_ = {};
    }
  }
  // `make(i)` returns element i; called in their order.
  template <class Make>
  ShortArray(std::size_t size, const Make& make) : size_(size) {
    if (size > Few) {
      many_.reserve(size);
      for (std::size_t i = 0; i < size; ++i) many_.push_back(make(i));
    } else {
      for (std::size_t i = 0; i < size; ++i) ::new (static_cast<void*>(few() + i)) T(make(i));  // no copy
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T* data() { return size_ > Few ? many_.data() : few(); }
  [[nodiscard]] const T* data() const { return const_cast<ShortArray*>(this)->data(); }
  [[nodiscard]] T* begin() { return data(); }
  [[nodiscard]] T* end() { return data() + size_; }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size_; }
  [[nodiscard]] T& operator[](std::size_t i) { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }

 private:
  T* few() { return reinterpret_cast<T*>(few_.data()); }

  std::size_t size_;
  alignas(T) std::array<std::byte, Few * sizeof(T)> few_;
  std::vector<T> many_;
};

}  // namespace dlaunch::internal
