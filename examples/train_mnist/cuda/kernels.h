// What the training computes on a GPU besides the products of matrices. Each call starts a kernel in the
// stream and returns the error of the start. Pointers are to the GPU's memory; matrices are row by row, a row
// an image. No kernel adds floats in an order that may change: the same input gives the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mnist::kernels {

// Which images the rows are: those at `indices` of a data set; null: its first ones, in order.
struct Images {
  const std::uint8_t* pixels;
  const std::uint8_t* labels;
  const std::uint32_t* indices;
};

// out[rows x width]: the pixels as 0 to 1.
cudaError_t read_images(cudaStream_t stream, const Images& images, std::size_t rows, std::size_t width,
                        float* out);

// values[rows x width] += bias[width], to each row; then ReLU, if `relu`.
cudaError_t add_bias(cudaStream_t stream, float* values, const float* bias, std::size_t rows,
                     std::size_t width, bool relu);

// ReLU's backward pass: derivatives become 0 if the activation is 0.
cudaError_t relu_backward(cudaStream_t stream, float* derivatives, const float* activations,
                          std::size_t count);

// sums[width] += the sum of the rows of values[rows x width].
cudaError_t add_column_sums(cudaStream_t stream, const float* values, std::size_t rows, std::size_t width,
                            float* sums);

// Softmax and cross-entropy: of the scores[rows x width], the derivatives of the loss by them, and the loss
// of each row.
cudaError_t softmax_loss(cudaStream_t stream, const float* scores, const Images& images, std::size_t rows,
                         std::size_t width, float* derivatives, double* losses);

// *total += the sum of the values.
cudaError_t add_sum(cudaStream_t stream, const double* values, std::size_t count, double* total);

// *correct += the number of rows whose highest score, the first of equal ones, is at the label.
cudaError_t count_correct(cudaStream_t stream, const float* scores, const Images& images, std::size_t rows,
                          std::size_t width, unsigned long long* correct);

struct SgdFactors {
  float momentum;
  float scale;
  float rate;
};

// velocity = momentum * velocity + scale * gradients;  parameters -= rate * velocity.
cudaError_t sgd_step(cudaStream_t stream, float* parameters, float* velocity, const float* gradients,
                     std::size_t count, SgdFactors factors);

}  // namespace mnist::kernels
