#include "examples/train_mnist/cuda/cublas.h"

#include "examples/train_mnist/cuda/cuda_check.h"

// cuBLAS's matrices are column by column, so what lies row by row is to it the transposed matrix. Hence the
// factors change places: transposed(a * b) is transposed(b) * transposed(a).

namespace mnist {
namespace {

struct Factor {
  const float* data;
  cublasOperation_t operation;
  std::size_t stride;  // the length of its rows as they lie
};

void product(cublasHandle_t handle, const ProductSize& size, const Factor& a, const Factor& b, float beta,
             float* out) {
  const float alpha = 1;
  const auto columns = static_cast<int>(size.columns);
  check(cublasSgemm(handle, b.operation, a.operation, columns, static_cast<int>(size.rows),
                    static_cast<int>(size.depth), &alpha, b.data, static_cast<int>(b.stride), a.data,
                    static_cast<int>(a.stride), &beta, out, columns),
        "a product of cuBLAS");
}

}  // namespace

Cublas::Cublas(cudaStream_t stream) {
  check(cublasCreate(&handle_), "cuBLAS does not start");
  check(cublasSetStream(handle_, stream), "cuBLAS does not take the stream");
  // Not even if the environment asks for TF32, whose products have three digits.
  check(cublasSetMathMode(handle_, CUBLAS_PEDANTIC_MATH), "cuBLAS does not compute in float");
}

Cublas::~Cublas() { cublasDestroy(handle_); }

void Cublas::multiply(const ProductSize& size, const float* a, const float* b, float* out) const {
  product(handle_, size, {a, CUBLAS_OP_N, size.depth}, {b, CUBLAS_OP_N, size.columns}, 0, out);
}

void Cublas::multiply_by_transposed(const ProductSize& size, const float* a, const float* b,
                                    float* out) const {
  product(handle_, size, {a, CUBLAS_OP_N, size.depth}, {b, CUBLAS_OP_T, size.depth}, 0, out);
}

void Cublas::add_transposed_product(const ProductSize& size, const float* a, const float* b,
                                    float* out) const {
  product(handle_, size, {a, CUBLAS_OP_T, size.rows}, {b, CUBLAS_OP_N, size.columns}, 1, out);
}

}  // namespace mnist
