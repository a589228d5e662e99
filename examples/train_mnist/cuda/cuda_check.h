// An error of CUDA or cuBLAS as an exception.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string>

namespace mnist {

// Throws std::runtime_error, which names what was tried, unless the call went well.
void check(cudaError_t result, const std::string& what);
void check(cublasStatus_t result, const std::string& what);

}  // namespace mnist
