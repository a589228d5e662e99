#include "runtime/backends/nccl/nccl_library.h"

#include "runtime/cuda/cuda_library.h"
#include "runtime/cuda/shared_library.h"

namespace dlaunch::internal {

namespace {

constexpr int oldest_nccl = 21900;

}  // namespace

const NcclLibrary& NcclLibrary::get() {
  static const NcclLibrary& only = *new NcclLibrary;  // threads may use it until the process ends
  return only;
}

NcclLibrary::NcclLibrary() {
  const CudaLibrary& cuda = CudaLibrary::get();
  problem_ = cuda.problem();
  if (!problem_.empty()) return;  // NCCL, which takes long to load, would not help
  static_cast<CudaFunctions&>(functions_) = cuda.functions();
  void* const nccl = load_shared_library("NCCL", {"libnccl.so.2"}, {"nccl/lib"}, problem_);
  if (nccl == nullptr) return;
#define DLAUNCH_FIND(name) find_function(nccl, #name, functions_.name, problem_);
  DLAUNCH_NCCL_FUNCTIONS(DLAUNCH_FIND)
#undef DLAUNCH_FIND
  std::string lacks_it;
  find_function(nccl, "ncclCommRevoke", functions_.ncclCommRevoke, lacks_it);
  if (problem_.empty() && (functions_.ncclGetVersion(&version_) != ncclSuccess || version_ < oldest_nccl)) {
    problem_ = "its version is " + std::to_string(version_) + ", and 2.19 or a newer one is needed";
  }
  if (!problem_.empty()) problem_.insert(0, "NCCL is not usable: ");
}

std::string why_no_device() {
  const NcclLibrary& library = NcclLibrary::get();
  if (!library.problem().empty()) return library.problem();
  const NcclFunctions& call = library.functions();
  int devices = 0;
  const cudaError_t error = call.cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    return std::string("there is no CUDA device that this process may use (CUDA_VISIBLE_DEVICES): ") +
           call.cudaGetErrorString(error);
  }
  return "";
}

}  // namespace dlaunch::internal
