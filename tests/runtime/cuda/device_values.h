// Values on a CUDA device, for tests.
#pragma once

#include <cuda_runtime_api.h>
#include <dlaunch/tensor.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace dlaunch::test {

inline void require(cudaError_t result, const char* call) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(result));
}

// An array on the thread's current device.
template <class T>
class DeviceValues {
 public:
  explicit DeviceValues(const std::vector<T>& values) : count_(values.size()) {
    require(cudaGetDevice(&device_), "cudaGetDevice");
    void* memory = nullptr;
    require(cudaMalloc(&memory, count_ * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(memory);
    set(values);
  }
  ~DeviceValues() { (void)cudaFree(data_); }
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] Tensor tensor() const { return part(0, count_); }
  [[nodiscard]] Tensor part(std::size_t begin, std::size_t count) const {
    return Tensor::from(data_ + begin, {static_cast<std::int64_t>(count)}, {Device::Kind::cuda, device_});
  }
  // As many parts of one size.
  [[nodiscard]] std::vector<Tensor> cut(std::size_t parts) const {
    std::vector<Tensor> all;
    for (std::size_t i = 0; i < parts; ++i) all.push_back(part(i * (count_ / parts), count_ / parts));
    return all;
  }

  // These two wait for the default stream.
  void set(const std::vector<T>& values) const {
    require(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
    require(cudaStreamSynchronize(nullptr),
            "cudaStreamSynchronize");  // cudaMemcpy does not wait for the device
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(count_);
    require(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
  int device_ = 0;
};

template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text;
  for (const T value : values) {
    std::string one = std::to_string(value);
    if (one.find('.') != std::string::npos) {
      one.erase(one.find_last_not_of('0') + 1);
      if (one.ends_with('.')) one.pop_back();
    }
    text += (text.empty() ? "" : " ") + one;
  }
  return text;
}

}  // namespace dlaunch::test
