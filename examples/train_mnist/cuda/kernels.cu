#include "examples/train_mnist/cuda/kernels.h"

namespace mnist::kernels {
namespace {

constexpr unsigned threads = 256;

// Enough to fill a GPU; a thread takes several elements if there are more.
unsigned blocks_for(std::size_t count) {
  constexpr std::size_t most = 4096;
  const std::size_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

__device__ std::size_t first_element() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::size_t all_threads() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

__device__ std::size_t image_of(const Images& images, std::size_t row) {
  return images.indices == nullptr ? row : images.indices[row];
}

__global__ void read_images_kernel(Images images, std::size_t rows, std::size_t width, float* out) {
  for (std::size_t i = first_element(); i < rows * width; i += all_threads()) {
    const std::uint8_t pixel = images.pixels[image_of(images, i / width) * width + i % width];
    out[i] = static_cast<float>(pixel) * (1.0F / 255.0F);
  }
}

__global__ void add_bias_kernel(float* values, const float* bias, std::size_t count, std::size_t width,
                                bool relu) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    const float value = values[i] + bias[i % width];
    values[i] = relu ? fmaxf(value, 0.0F) : value;
  }
}

__global__ void relu_backward_kernel(float* derivatives, const float* activations, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads())
    if (activations[i] == 0) derivatives[i] = 0;
}

// A block sums 32 columns: neighbours in memory are read at once, eight rows at a time.
constexpr unsigned columns_of_block = 32;
constexpr unsigned rows_of_block = 8;

__global__ void add_column_sums_kernel(const float* values, std::size_t rows, std::size_t width,
                                       float* sums) {
  __shared__ float parts[rows_of_block][columns_of_block];
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * columns_of_block + threadIdx.x;
  float sum = 0;
  if (column < width)
    for (std::size_t row = threadIdx.y; row < rows; row += rows_of_block) sum += values[row * width + column];
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (unsigned part = 1; part < rows_of_block; ++part) sum += parts[part][threadIdx.x];
  sums[column] += sum;
}

// A thread a row: there are ten scores.
__global__ void softmax_loss_kernel(const float* scores, Images images, std::size_t rows, std::size_t width,
                                    float* derivatives, double* losses) {
  for (std::size_t row = first_element(); row < rows; row += all_threads()) {
    const float* const score = scores + row * width;
    float* const derivative = derivatives + row * width;
    const std::size_t label = images.labels[image_of(images, row)];
    float highest = score[0];
    for (std::size_t i = 1; i < width; ++i) highest = fmaxf(highest, score[i]);
    float sum = 0;
    for (std::size_t i = 0; i < width; ++i) {
      derivative[i] = expf(score[i] - highest);  // the highest becomes 1: nothing overflows
      sum += derivative[i];
    }
    for (std::size_t i = 0; i < width; ++i) derivative[i] /= sum;
    losses[row] = log(static_cast<double>(sum)) + static_cast<double>(highest - score[label]);
    derivative[label] -= 1;
  }
}

// One block: the order of the additions is the same every time.
__global__ void add_sum_kernel(const double* values, std::size_t count, double* total) {
  __shared__ double parts[threads];
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += threads) sum += values[i];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *total += parts[0];
}

__global__ void count_correct_kernel(const float* scores, Images images, std::size_t rows, std::size_t width,
                                     unsigned long long* correct) {
  for (std::size_t row = first_element(); row < rows; row += all_threads()) {
    const float* const score = scores + row * width;
    std::size_t best = 0;
    for (std::size_t i = 1; i < width; ++i)
      if (score[i] > score[best]) best = i;
    if (best == images.labels[image_of(images, row)]) atomicAdd(correct, 1ULL);
  }
}

__global__ void sgd_step_kernel(float* parameters, float* velocity, const float* gradients, std::size_t count,
                                SgdFactors factors) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    velocity[i] = factors.momentum * velocity[i] + factors.scale * gradients[i];
    parameters[i] -= factors.rate * velocity[i];
  }
}

}  // namespace

cudaError_t read_images(cudaStream_t stream, const Images& images, std::size_t rows, std::size_t width,
                        float* out) {
  read_images_kernel<<<blocks_for(rows * width), threads, 0, stream>>>(images, rows, width, out);
  return cudaGetLastError();
}

cudaError_t add_bias(cudaStream_t stream, float* values, const float* bias, std::size_t rows,
                     std::size_t width, bool relu) {
  const std::size_t count = rows * width;
  add_bias_kernel<<<blocks_for(count), threads, 0, stream>>>(values, bias, count, width, relu);
  return cudaGetLastError();
}

cudaError_t relu_backward(cudaStream_t stream, float* derivatives, const float* activations,
                          std::size_t count) {
  relu_backward_kernel<<<blocks_for(count), threads, 0, stream>>>(derivatives, activations, count);
  return cudaGetLastError();
}

cudaError_t add_column_sums(cudaStream_t stream, const float* values, std::size_t rows, std::size_t width,
                            float* sums) {
  const auto blocks = static_cast<unsigned>((width + columns_of_block - 1) / columns_of_block);
  add_column_sums_kernel<<<blocks, dim3(columns_of_block, rows_of_block), 0, stream>>>(values, rows, width,
                                                                                       sums);
  return cudaGetLastError();
}

cudaError_t softmax_loss(cudaStream_t stream, const float* scores, const Images& images, std::size_t rows,
                         std::size_t width, float* derivatives, double* losses) {
  softmax_loss_kernel<<<blocks_for(rows), threads, 0, stream>>>(scores, images, rows, width, derivatives,
                                                                losses);
  return cudaGetLastError();
}

cudaError_t add_sum(cudaStream_t stream, const double* values, std::size_t count, double* total) {
  add_sum_kernel<<<1, threads, 0, stream>>>(values, count, total);
  return cudaGetLastError();
}

cudaError_t count_correct(cudaStream_t stream, const float* scores, const Images& images, std::size_t rows,
                          std::size_t width, unsigned long long* correct) {
  count_correct_kernel<<<blocks_for(rows), threads, 0, stream>>>(scores, images, rows, width, correct);
  return cudaGetLastError();
}

cudaError_t sgd_step(cudaStream_t stream, float* parameters, float* velocity, const float* gradients,
                     std::size_t count, SgdFactors factors) {
  sgd_step_kernel<<<blocks_for(count), threads, 0, stream>>>(parameters, velocity, gradients, count, factors);
  return cudaGetLastError();
}

}  // namespace mnist::kernels
