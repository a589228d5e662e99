#include "examples/train_mnist/cuda/cuda_check.h"

#include <stdexcept>

namespace mnist {

void check(cudaError_t result, const std::string& what) {
  if (result != cudaSuccess)
    throw std::runtime_error("--device=cuda: " + what + ": " + cudaGetErrorString(result));
}

void check(cublasStatus_t result, const std::string& what) {
  if (result != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error("--device=cuda: " + what + ": " + cublasGetStatusString(result));
}

}  // namespace mnist
