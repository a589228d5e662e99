// CUDA's runtime in this process.
#pragma once

#include <string>

#include "runtime/cuda/cuda_functions.h"

namespace dlaunch::internal {

class CudaLibrary {
 public:
  // Loads it at the first call. Any thread. It stays until the process ends.
  static const CudaLibrary& get();

  // Why it cannot be used: the library, an entry point or the driver is missing. One clause; empty: it can.
  // Whether there is a device is another question.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // REQUIRES: problem() is empty.
  [[nodiscard]] const CudaFunctions& functions() const { return functions_; }

 private:
  CudaLibrary();

  CudaFunctions functions_;
  std::string problem_;
};

}  // namespace dlaunch::internal
