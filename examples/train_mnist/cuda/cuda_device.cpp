#include "examples/train_mnist/cuda/cuda_device.h"

#include <algorithm>
#include <stdexcept>

#include "examples/train_mnist/cuda_module.h"
#include "examples/train_mnist/sgd.h"

namespace mnist {
namespace {

// The GPU of this rank of its host. Throws if there is none.
int choose_gpu(std::size_t local_rank) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess || count == 0)
    throw std::runtime_error(std::string("--device=cuda: there is no usable GPU: ") +
                             cudaGetErrorString(result == cudaSuccess ? cudaErrorNoDevice : result) +
                             "; nvidia-smi shows the driver and its GPUs; or use --device=cpu");
  return static_cast<int>(local_rank % static_cast<std::size_t>(count));
}

}  // namespace

CudaStream::CudaStream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream of the GPU");
}

CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

CudaDataset::CudaDataset(const Dataset& host, cudaStream_t stream)
    : pixels(host.pixels.size()), labels(host.labels.size()) {
  pixels.load(host.pixels, stream);
  labels.load(host.labels, stream);
}

CudaDevice::CudaDevice(const Dataset& train, const Dataset& test, int index)
    : index_(index),
      current_({stream_.get()}, index),
      cublas_(stream_.get()),
      train_(train, stream_.get()),
      test_(test, stream_.get()),
      activations_{CudaArray<float>(rows_at_once * network_widths[0]),
                   CudaArray<float>(rows_at_once * network_widths[1]),
                   CudaArray<float>(rows_at_once * network_widths[2]),
                   CudaArray<float>(rows_at_once * network_widths[3])},
      derivatives_{CudaArray<float>(rows_at_once * network_widths[1]),
                   CudaArray<float>(rows_at_once * network_widths[2]),
                   CudaArray<float>(rows_at_once * network_widths[3])} {
  loss_.clear(stream_.get());
}

std::string CudaDevice::name() const {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index_), "properties of the GPU");
  return "cuda:" + std::to_string(index_) + ", " + static_cast<const char*>(properties.name);
}

void CudaDevice::load(std::span<const float> parameters, std::span<const float> velocity) {
  parameters_.load(parameters, stream_.get());
  velocity_.load(velocity, stream_.get());
  wait();
}

void CudaDevice::fetch(std::span<float> parameters, std::span<float> velocity) {
  parameters_.fetch(parameters, stream_.get());
  velocity_.fetch(velocity, stream_.get());
  wait();
}

void CudaDevice::compute_gradients(std::span<const std::uint32_t> images) {
  gradients_.clear(stream_.get());
  for (std::size_t begin = 0; begin < images.size(); begin += rows_at_once) {
    const std::size_t rows = std::min(rows_at_once, images.size() - begin);
    indices_.load(images.subspan(begin, rows), stream_.get());
    const kernels::Images source{train_.pixels.data(), train_.labels.data(), indices_.data()};
    forward(source, rows);
    check(kernels::softmax_loss(stream_.get(), activations_.back().data(), source, rows, classes,
                                derivatives_.back().data(), losses_.data()),
          "the loss");
    check(kernels::add_sum(stream_.get(), losses_.data(), rows, loss_.data()), "the loss");
    backward(rows);
  }
}

void CudaDevice::forward(const kernels::Images& images, std::size_t rows) {
  check(kernels::read_images(stream_.get(), images, rows, pixels_per_image, activations_[0].data()),
        "the images");
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    float* const out = activations_[l + 1].data();
    cublas_.multiply({.rows = rows, .depth = layer.inputs, .columns = layer.outputs}, activations_[l].data(),
                     parameters_.data() + layer.weights, out);
    const bool hidden = l + 1 < layers_.size();
    check(
        kernels::add_bias(stream_.get(), out, parameters_.data() + layer.biases, rows, layer.outputs, hidden),
        "the bias");
  }
}

void CudaDevice::backward(std::size_t rows) {
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const float* const in = activations_[l].data();
    const float* const by_out = derivatives_[l].data();
    check(kernels::add_column_sums(stream_.get(), by_out, rows, layer.outputs,
                                   gradients_.data() + layer.biases),
          "the gradients of the bias");
    cublas_.add_transposed_product({.rows = layer.inputs, .depth = rows, .columns = layer.outputs}, in,
                                   by_out, gradients_.data() + layer.weights);
    if (l == 0) break;
    float* const by_in = derivatives_[l - 1].data();
    cublas_.multiply_by_transposed({.rows = rows, .depth = layer.outputs, .columns = layer.inputs}, by_out,
                                   parameters_.data() + layer.weights, by_in);
    check(kernels::relu_backward(stream_.get(), by_in, in, rows * layer.inputs), "the backward pass");
  }
}

dlaunch::Tensor CudaDevice::gradients() {
  return dlaunch::Tensor::from(gradients_.data(), {static_cast<std::int64_t>(gradients_.size())},
                               {.kind = dlaunch::Device::Kind::cuda, .index = index_});
}

void CudaDevice::step(float scale, float rate) {
  check(kernels::sgd_step(stream_.get(), parameters_.data(), velocity_.data(), gradients_.data(),
                          parameters_.size(), {.momentum = momentum, .scale = scale, .rate = rate}),
        "the step");
}

double CudaDevice::take_loss() {
  double loss = 0;
  loss_.fetch(std::span(&loss, 1), stream_.get());
  loss_.clear(stream_.get());
  wait();
  return loss;
}

std::size_t CudaDevice::count_correct(std::size_t begin, std::size_t end) {
  correct_.clear(stream_.get());
  for (; begin < end; begin += rows_at_once) {
    const std::size_t rows = std::min(rows_at_once, end - begin);
    const kernels::Images source{test_.pixels.data() + begin * pixels_per_image, test_.labels.data() + begin,
                                 nullptr};
    forward(source, rows);
    check(kernels::count_correct(stream_.get(), activations_.back().data(), source, rows, classes,
                                 correct_.data()),
          "the test");
  }
  unsigned long long correct = 0;
  correct_.fetch(std::span(&correct, 1), stream_.get());
  wait();
  return correct;
}

// The longest that it waits for is a reduction, which has the deadline of its group.
void CudaDevice::wait() { check(cudaStreamSynchronize(stream_.get()), "the GPU's work"); }

}  // namespace mnist

extern "C" __attribute__((visibility("default"))) mnist::Device* train_mnist_make_cuda_device(
    const mnist::Dataset& train, const mnist::Dataset& test, std::size_t local_rank) {
  const int index = mnist::choose_gpu(local_rank);
  mnist::check(cudaSetDevice(index), "cuda:" + std::to_string(index));
  return new mnist::CudaDevice(train, test, index);
}
