// Memory that the ranks of one host read in place.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "dlaunch/export.h"

namespace dlaunch {
namespace internal {
class GroupImpl;
}
inline namespace v1 {

// A handle; copies refer to the same memory, which is returned with the last of them. It stays valid after
// the group is destroyed. A process that is forked does not have the memory.
//
// all_reduce, reduce and reduce_scatter of more than 16 KiB copy nothing if the tensors of all ranks lie in
// such memory that was allocated over one group, whichever group makes the call. Other operations may use it
// like any other memory, and so does all_reduce if one rank's tensor lies elsewhere. (reduce and
// reduce_scatter copy if they scale: avg, premul_sum.)
//
//   dlaunch::SharedMemory memory = dlaunch::allocate_shared(count * sizeof(float));
//   std::span<float> gradients = memory.as<float>();
//   dlaunch::all_reduce(dlaunch::Tensor::of(gradients));
class DLAUNCH_EXPORT SharedMemory {
 public:
  SharedMemory() = default;  // no bytes

  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }  // bytes
  // Whether other ranks can read it in place. false: it is this process's own memory.
  [[nodiscard]] bool is_shared() const { return is_shared_; }

  // As elements of T, as many as fit. Valid as long as a handle to the memory is.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    return {reinterpret_cast<T*>(memory_.get()), size_ / sizeof(T)};
  }

 private:
  friend class internal::GroupImpl;
  SharedMemory(std::shared_ptr<std::byte> memory, std::size_t size, bool is_shared)
      : memory_(std::move(memory)), size_(size), is_shared_(is_shared) {}

  std::shared_ptr<std::byte> memory_;
  std::size_t size_ = 0;
  bool is_shared_ = false;
};

}  // namespace v1
}  // namespace dlaunch
