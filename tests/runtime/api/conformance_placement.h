// Where the values of the conformance test are during a call: in the vectors of the test, or copied to a
// device before it and back afterwards.
#pragma once

#include <dlaunch/tensor.h>

#include <cstddef>
#include <memory>

class Placement {
 public:
  virtual ~Placement() = default;
  // The place of these bytes, of which it takes a copy unless they are part of what it has.
  virtual void* place(void* values, std::size_t bytes) = 0;
  // Copies everything back, and forgets it.
  virtual void fetch() = 0;
  virtual void forget() = 0;
  [[nodiscard]] virtual dlaunch::Device device() const = 0;
};

// Of this rank; null: the values stay in the vectors.
inline Placement* placement = nullptr;
// The backend is nccl, which has no tags, no receive from any rank, few bit operations, and no CPU tensors.
inline bool is_nccl = false;

// For the device of a rank; null in the program for the host.
std::unique_ptr<Placement> device_placement(int rank);
