// The tensors in the result of a module's forward().
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dlaunch::torch {
inline namespace v1 {

// Appends the tensors that `value` holds. For a type of your own, define a function of this name and form in
// its namespace; it may call these for its members.
inline void tensors_in(const at::Tensor& value, std::vector<at::Tensor>& found) { found.push_back(value); }
template <class T>
void tensors_in(const std::vector<T>& values, std::vector<at::Tensor>& found);
template <class T, std::size_t N>
void tensors_in(const std::array<T, N>& values, std::vector<at::Tensor>& found);
template <class T>
void tensors_in(const std::optional<T>& value, std::vector<at::Tensor>& found);
template <class K, class T>
void tensors_in(const std::map<K, T>& values, std::vector<at::Tensor>& found);
template <class K, class T>
void tensors_in(const std::unordered_map<K, T>& values, std::vector<at::Tensor>& found);
template <class A, class B>
void tensors_in(const std::pair<A, B>& values, std::vector<at::Tensor>& found);
template <class... T>
void tensors_in(const std::tuple<T...>& values, std::vector<at::Tensor>& found);

template <class T>
void tensors_in(const std::vector<T>& values, std::vector<at::Tensor>& found) {
  for (const T& value : values) tensors_in(value, found);
}
template <class T, std::size_t N>
void tensors_in(const std::array<T, N>& values, std::vector<at::Tensor>& found) {
  for (const T& value : values) tensors_in(value, found);
}
template <class T>
void tensors_in(const std::optional<T>& value, std::vector<at::Tensor>& found) {
  if (value) tensors_in(*value, found);
}
template <class K, class T>
void tensors_in(const std::map<K, T>& values, std::vector<at::Tensor>& found) {
  for (const auto& [key, value] : values) tensors_in(value, found);
}
template <class K, class T>
void tensors_in(const std::unordered_map<K, T>& values, std::vector<at::Tensor>& found) {
  for (const auto& [key, value] : values) tensors_in(value, found);
}
template <class A, class B>
void tensors_in(const std::pair<A, B>& values, std::vector<at::Tensor>& found) {
  tensors_in(values.first, found);
  tensors_in(values.second, found);
}
template <class... T>
void tensors_in(const std::tuple<T...>& values, std::vector<at::Tensor>& found) {
  std::apply([&found](const T&... value) { (tensors_in(value, found), ...); }, values);
}

}  // namespace v1
}  // namespace dlaunch::torch
