// The device memory of the double of the CUDA runtime: an arena of its own. Its addresses cannot be read or
// written by the host: a program that does so by accident crashes, as with a GPU. The double itself uses a
// second mapping of the same pages. With CUDA_DOUBLE_OPEN_MEMORY=1 the host may use the addresses: then any
// library stands for one that uses the memory of devices. The ranks of a host see each other's arenas, as
// GPUs do over NVLink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace doubles {

class __attribute__((visibility("default"))) DeviceMemory {
 public:
  static constexpr std::size_t size = std::size_t{1} << 30U;

  DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Null: there is not enough. New memory does not hold zeros.
  void* allocate(std::size_t bytes);
  // False: it is not the beginning of an allocation. What was there is overwritten.
  bool free(void* address);

  [[nodiscard]] bool is_device(const void* address) const;
  // Where the double finds these bytes; null unless all of them are in one allocation.
  [[nodiscard]] std::byte* find(const void* address, std::size_t bytes) const;
  [[nodiscard]] std::uint64_t offset_of(const void* address) const;
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::byte* device_ = nullptr;  // without access
  std::byte* host_ = nullptr;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> used_;  // begin, length; protected by mutex_
};

}  // namespace doubles
