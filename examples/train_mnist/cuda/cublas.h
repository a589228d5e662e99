// cuBLAS's products, for matrices row by row.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>

namespace mnist {

// A product's sizes: [rows x depth] times [depth x columns].
struct ProductSize {
  std::size_t rows;
  std::size_t depth;
  std::size_t columns;
};

// One stream's products, in float without shortcuts. Each sum is made in the same order every time.
class Cublas {
 public:
  explicit Cublas(cudaStream_t stream);
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  ~Cublas();

  // out = a * b
  void multiply(const ProductSize& size, const float* a, const float* b, float* out) const;
  // out = a * transposed(b): b is stored [columns x depth].
  void multiply_by_transposed(const ProductSize& size, const float* a, const float* b, float* out) const;
  // out += transposed(a) * b: a is stored [depth x rows].
  void add_transposed_product(const ProductSize& size, const float* a, const float* b, float* out) const;

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace mnist
