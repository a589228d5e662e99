// The pinned memory of the host of the double of the CUDA runtime. Copies read and write it when their stream
// runs, not when they are started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace doubles {

class __attribute__((visibility("default"))) PinnedMemory {
 public:
  // Null: there is none. New memory does not hold zeros.
  void* allocate(std::size_t bytes);
  // False: it is not the beginning of an allocation. What was there is overwritten.
  bool free(void* address);
  // Whether all these bytes are in one allocation.
  [[nodiscard]] bool holds(const void* address, std::size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> used_;  // begin, length; protected by mutex_
};

}  // namespace doubles
