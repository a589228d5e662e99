// CUDA's runtime and NCCL in this process.
#pragma once

#include <string>

#include "runtime/backends/nccl/nccl_functions.h"

namespace dlaunch::internal {

class NcclLibrary {
 public:
  // Loads them at the first call. Any thread. They stay until the process ends.
  static const NcclLibrary& get();

  // Why they cannot be used: a library, an entry point or the driver is missing, or NCCL is too old. One
  // clause; empty: they can. Whether there is a device is another question.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // REQUIRES: problem() is empty.
  [[nodiscard]] const NcclFunctions& functions() const { return functions_; }
  [[nodiscard]] int version() const { return version_; }  // NCCL's: 22809 is 2.28.9

 private:
  NcclLibrary();

  NcclFunctions functions_;
  std::string problem_;
  int version_ = 0;
};

// Why no CUDA device can be used: no library, no driver, or no device. One clause; empty: one can.
std::string why_no_device();

}  // namespace dlaunch::internal
