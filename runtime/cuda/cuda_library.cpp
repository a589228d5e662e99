#include "runtime/cuda/cuda_library.h"

#include <dlfcn.h>

#include <iterator>
#include <vector>

#include "runtime/cuda/shared_library.h"

namespace dlaunch::internal {

namespace {

constexpr const char* cuda_names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};

}  // namespace

const CudaLibrary& CudaLibrary::get() {
  static const CudaLibrary& only = *new CudaLibrary;  // threads may use it until the process ends
  return only;
}

CudaLibrary::CudaLibrary() {
  // Where there is none, CUDA's runtime takes long to find that out, and programs that name no backend ask.
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    problem_ = "there is no NVIDIA driver: the loader does not find libcuda.so.1";
    return;
  }
  const std::vector<std::string> names(std::begin(cuda_names), std::end(cuda_names));
  void* const cuda = load_shared_library("CUDA's runtime", names, {"cu13/lib", "cuda_runtime/lib"}, problem_);
  if (cuda == nullptr) return;
#define DLAUNCH_FIND(name) find_function(cuda, #name, functions_.name, problem_);
  DLAUNCH_CUDA_FUNCTIONS(DLAUNCH_FIND)
  DLAUNCH_FIND(cudaMalloc)
  DLAUNCH_FIND(cudaHostAlloc)
#undef DLAUNCH_FIND
  if (!problem_.empty()) {
    problem_.insert(0, "CUDA's runtime is not usable: ");
    return;
  }
  int driver = 0;
  if (functions_.cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    problem_ = "the NVIDIA driver does not work (nvidia-smi shows more)";
  }
}

}  // namespace dlaunch::internal
