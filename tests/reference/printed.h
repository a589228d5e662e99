// What the reference documents print, and the check that a program's values are just that.
//
// The documents are not consistent in blanks and decimal points (tensor([1+1j]) and tensor([1.+1.j]),
// tensor([2, 3]) of a float32 tensor): these are left out of the comparison. All numbers are whole.
#pragma once

#include <dlaunch/distributed.h>

#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace reference {

namespace dist = dlaunch;

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Complexes = std::vector<std::complex<float>>;

// torch.arange(count) + first.
inline Ints arange(std::int64_t count, std::int64_t first = 0) {
  Ints values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(first + i);
  return values;
}

// torch.tensor([1+1j, 2+2j, ...]) + first * (1+1j).
inline Complexes complex_range(int count, int first = 0) {
  Complexes values;
  for (int i = 1; i <= count; ++i)
    values.emplace_back(static_cast<float>(first + i), static_cast<float>(first + i));
  return values;
}

// chunk() and split(): copies.
template <class T>
std::vector<std::vector<T>> split(const std::vector<T>& whole, const std::vector<std::int64_t>& sizes) {
  std::vector<std::vector<T>> parts;
  auto at = whole.begin();
  for (const std::int64_t size : sizes) {
    parts.emplace_back(at, at + size);
    at += size;
  }
  return parts;
}

template <class T>
std::vector<dist::Tensor> tensors(std::vector<std::vector<T>>& parts) {
  std::vector<dist::Tensor> result;
  for (std::vector<T>& part : parts) result.push_back(dist::Tensor::of(part));
  return result;
}

inline std::string number(std::int64_t value) { return std::to_string(value); }
inline std::string number(float value) { return std::to_string(static_cast<std::int64_t>(value)); }
inline std::string number(std::complex<float> value) {
  return number(value.real()) + "+" + number(value.imag()) + "j";
}

template <class T>
std::string shown(const std::vector<T>& tensor) {
  std::string text;
  for (const T& value : tensor) text += (text.empty() ? "" : ",") + number(value);
  return "tensor([" + text + "])";
}

template <class T>
std::string shown(const std::vector<std::vector<T>>& list) {
  std::string text;
  for (const std::vector<T>& tensor : list) text += (text.empty() ? "" : ",") + shown(tensor);
  return "[" + text + "]";
}

// Of shape (rows, n).
template <class T>
std::string shown_in_rows(const std::vector<T>& tensor, std::size_t rows) {
  std::string text;
  const std::size_t columns = tensor.size() / rows;
  for (std::size_t row = 0; row < rows; ++row) {
    text += text.empty() ? "[" : ",[";
    for (std::size_t i = 0; i < columns; ++i) text += (i > 0 ? "," : "") + number(tensor[row * columns + i]);
    text += "]";
  }
  return "tensor([" + text + "])";
}

inline std::string plain(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '.' && c != '\n') result += c;
  }
  return result;
}

// Throws if the document prints something else.
inline void expect(const std::string& seen, const std::string& printed) {
  if (plain(seen) == plain(printed)) return;
  throw std::runtime_error("seen: " + seen + "\nprinted: " + printed);
}

inline void expect_by_rank(const std::string& seen, const std::vector<std::string>& printed) {
  expect(seen, printed.at(static_cast<std::size_t>(dist::get_rank())));
}

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// The error of a call that the document says raises one.
inline std::string raised(const std::function<void()>& call) {
  try {
    call();
  } catch (const dist::DistError& e) {
    return e.what();
  }
  throw std::runtime_error("no exception was raised");
}

// main() of a program that the launcher has started as many times as it needs.
inline int run(const std::function<void(int rank, int size)>& body) {
  try {
    dist::init_process_group({.backend = "gloo"});
    body(dist::get_rank(), dist::get_world_size());
    dist::destroy_process_group();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %s: %s\n", std::getenv("RANK"), e.what());
    return 1;
  }
  return 0;
}

}  // namespace reference
