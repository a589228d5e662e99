// Memory of the GPU that is the calling thread's current one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "examples/train_mnist/cuda/cuda_check.h"

namespace mnist {

// An array in the GPU's memory, of any values at first. Its calls are ordered with the stream's work, and a
// copy may still run when they return.
template <class T>
class CudaArray {
 public:
  // At least one element.
  explicit CudaArray(std::size_t size) : size_(size) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, size * sizeof(T)), "memory of the GPU");
    data_ = static_cast<T*>(memory);
  }
  CudaArray(const CudaArray&) = delete;
  CudaArray& operator=(const CudaArray&) = delete;
  // What the destructor cannot report, the call before it has.
  ~CudaArray() { cudaFree(data_); }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  void clear(cudaStream_t stream) {
    check(cudaMemsetAsync(data_, 0, size_ * sizeof(T), stream), "memory of the GPU");
  }
  // REQUIRES: the host's array is not longer than this one.
  void load(std::span<const T> host, cudaStream_t stream) {
    check(cudaMemcpyAsync(data_, host.data(), host.size_bytes(), cudaMemcpyHostToDevice, stream),
          "copy to the GPU");
  }
  void fetch(std::span<T> host, cudaStream_t stream) const {
    check(cudaMemcpyAsync(host.data(), data_, host.size_bytes(), cudaMemcpyDeviceToHost, stream),
          "copy from the GPU");
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

}  // namespace mnist
