// What the ranks of the conformance test (conformance_ranks.cpp) put in, and where they write what they have
// in the end. conformance_torch.py has the same formulas.
#pragma once

#include <dlaunch/tensor.h>

#include <array>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/runtime/api/conformance_placement.h"

// std::vector<bool> has no memory to look at.
enum class Truth : std::uint8_t { no, yes };

template <class T>
constexpr bool is_complex = false;
template <class T>
constexpr bool is_complex<std::complex<T>> = true;

template <class T>
constexpr bool is_half = std::is_same_v<T, dlaunch::Float16> || std::is_same_v<T, dlaunch::BFloat16>;
template <class T>
constexpr bool is_float8 = std::is_same_v<T, dlaunch::Float8E4M3> || std::is_same_v<T, dlaunch::Float8E5M2>;

// The i-th value of a rank. Halves of small numbers, which no dtype of the table rounds, so that sums have
// one right result (of float8 -1, 0 and 1); `thirds` are rounded by the floating point types.
template <class T>
T value_of(int rank, std::size_t i, bool thirds) {
  const int number = static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 13) % 23);
  const double real = thirds ? number / 3.0 : number * 0.5 - 5;
  if constexpr (is_complex<T>) {
    using Part = typename T::value_type;
    return {value_of<Part>(rank, i, thirds), value_of<Part>(rank + 3, i, thirds)};
  } else if constexpr (is_float8<T>) {
    return T::from(static_cast<float>(thirds ? real : number % 3 - 1));
  } else if constexpr (is_half<T>) {
    return T::from(static_cast<float>(real));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(real);
  } else if constexpr (std::is_same_v<T, Truth>) {
    return static_cast<Truth>(number % 2);
  } else {
    return static_cast<T>(std::is_signed_v<T> ? number - 11 : number);
  }
}

template <class T>
std::vector<T> values_of(int rank, std::size_t count, bool thirds = false) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of<T>(rank, i, thirds);
  return values;
}

template <class T>
dlaunch::Tensor view(T* data, std::size_t count) {
  const auto length = static_cast<std::int64_t>(count);
  const dlaunch::Device device = placement != nullptr ? placement->device() : dlaunch::Device();
  if (placement != nullptr) data = static_cast<T*>(placement->place(data, count * sizeof(T)));
  if constexpr (std::is_same_v<T, Truth>) {
    return {static_cast<void*>(data), dlaunch::DType::boolean, std::span(&length, 1), device};
  } else {
    return dlaunch::Tensor::from(data, {length}, device);
  }
}

template <class T>
dlaunch::Tensor view(std::vector<T>& values) {
  return view(values.data(), values.size());
}

// `values` cut in as many parts of one size.
template <class T>
std::vector<dlaunch::Tensor> cut(std::vector<T>& values, std::size_t parts) {
  const std::size_t length = parts == 0 ? 0 : values.size() / parts;
  if (parts > 0) (void)view(values);  // as one array
  std::vector<dlaunch::Tensor> views;
  for (std::size_t i = 0; i < parts; ++i) views.push_back(view(values.data() + i * length, length));
  return views;
}

// The name of a cell, where the process that started the ranks sees it too.
using CellName = std::array<char, 100>;

// A file of records, one for each cell of the table: name, newline, length in bytes, newline, bytes.
class Records {
 public:
  Records(const std::string& path, CellName& cell) : out_(path, std::ios::binary), cell_(cell) {}

  // What follows is this cell's, until the next one starts.
  void start(const std::string& call, const std::string& dtype, std::size_t count) {
    if (placement != nullptr) placement->forget();
    std::snprintf(cell_.data(), cell_.size(), "%s %s %zu", call.c_str(), dtype.c_str(), count);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    if (placement != nullptr) placement->fetch();
    const std::size_t length = values.size() * sizeof(T);
    out_ << cell_.data() << "\n" << length << "\n";
    out_.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(length));
  }
  [[nodiscard]] bool good() {
    out_.flush();
    return out_.good();
  }

 private:
  std::ofstream out_;
  CellName& cell_;
};
