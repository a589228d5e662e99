// The training on a GPU: products by cuBLAS, the rest by kernels, all in one stream, which is libdlaunch's
// current one too. The host only waits when it fetches something.
#pragma once

#include <cuda_runtime_api.h>
#include <dlaunch/stream.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "examples/train_mnist/cuda/cublas.h"
#include "examples/train_mnist/cuda/cuda_memory.h"
#include "examples/train_mnist/cuda/kernels.h"
#include "examples/train_mnist/device.h"
#include "examples/train_mnist/idx.h"
#include "examples/train_mnist/layers.h"

namespace mnist {

// A stream of the GPU, which becomes the calling thread's current one.
class CudaStream {
 public:
  CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream();

  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A data set in the GPU's memory.
struct CudaDataset {
  CudaDataset(const Dataset& host, cudaStream_t stream);

  CudaArray<std::uint8_t> pixels;
  CudaArray<std::uint8_t> labels;
};

class CudaDevice final : public Device {
 public:
  // On the GPU `index`, which is the calling thread's current one. Only this thread may use it.
  CudaDevice(const Dataset& train, const Dataset& test, int index);

  [[nodiscard]] std::string name() const override;
  void load(std::span<const float> parameters, std::span<const float> velocity) override;
  void fetch(std::span<float> parameters, std::span<float> velocity) override;
  void compute_gradients(std::span<const std::uint32_t> images) override;
  [[nodiscard]] dlaunch::Tensor gradients() override;
  void step(float scale, float rate) override;
  double take_loss() override;
  std::size_t count_correct(std::size_t begin, std::size_t end) override;

 private:
  // Longer parts of a batch are computed piece by piece, which bounds the memory.
  static constexpr std::size_t rows_at_once = 4096;

  // Fills activations_ of so many images; the last ones are the scores.
  void forward(const kernels::Images& images, std::size_t rows);
  // From activations_ and the derivatives by the scores, adds up the gradients of all parameters.
  void backward(std::size_t rows);
  void wait();

  int index_;
  CudaStream stream_;
  dlaunch::StreamGuard current_;
  Cublas cublas_;
  CudaDataset train_;
  CudaDataset test_;
  std::array<Layer, 3> layers_ = layers_of(network_widths);
  CudaArray<float> parameters_{parameter_count(network_widths)};
  CudaArray<float> velocity_{parameter_count(network_widths)};
  CudaArray<float> gradients_{parameter_count(network_widths)};
  // What goes into layer i, [3] are the scores; and the loss's derivatives by them, of which [0] is not
  // needed.
  std::array<CudaArray<float>, 4> activations_;
  std::array<CudaArray<float>, 3> derivatives_;
  CudaArray<std::uint32_t> indices_{rows_at_once};
  CudaArray<double> losses_{rows_at_once};
  CudaArray<double> loss_{1};
  CudaArray<unsigned long long> correct_{1};
};

}  // namespace mnist
