#include "runtime/backends/nccl/nccl_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "runtime/backends/nccl/library_places.h"
#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

namespace {

constexpr int oldest_nccl = 21900;
constexpr const char* cuda_names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  for (const std::string& prefix : python_prefixes(process_environment, is_file)) {
    std::error_code ignored;
    for (const auto& version : std::filesystem::directory_iterator(prefix + "/lib", ignored)) {
      if (!version.path().filename().string().starts_with("python3")) continue;
      for (const char* const packages : {"site-packages", "dist-packages"}) {
        const std::string nvidia = version.path().string() + "/" + packages + "/nvidia";
        if (is_file(nvidia)) folders.push_back(nvidia);
      }
    }
  }
  std::ranges::sort(folders);
  return folders;
}

// The first that can be loaded; else null, and `problem` is set.
void* load(const char* what, const std::vector<std::string>& names, const std::vector<std::string>& wheels,
           std::string& problem) {
  const std::vector<std::string> folders = package_folders();
  for (const std::string& place : library_places(names, wheels, folders, process_environment)) {
    if (void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  problem = std::string(what) + " (" + names.front() +
            ") was not found, neither by the loader (LD_LIBRARY_PATH, ld.so.conf), nor in CUDA_HOME, nor in "
            "the packages of Python";
  for (const std::string& folder : folders) problem += (folder == folders.front() ? ": " : ", ") + folder;
  return nullptr;
}

template <class Function>
void find(void* library, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && problem.empty()) problem = std::string("it lacks the entry point ") + name;
}

}  // namespace

const NcclLibrary& NcclLibrary::get() {
  static const NcclLibrary& only = *new NcclLibrary;  // threads may use it until the process ends
  return only;
}

NcclLibrary::NcclLibrary() {
  // Where there is none, CUDA's runtime takes long to find that out, and programs that name no backend ask.
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    problem_ = "there is no NVIDIA driver: the loader does not find libcuda.so.1";
    return;
  }
  const std::vector<std::string> names(std::begin(cuda_names), std::end(cuda_names));
  void* const cuda = load("CUDA's runtime", names, {"cu13/lib", "cuda_runtime/lib"}, problem_);
  if (cuda == nullptr) return;
#define DLAUNCH_FIND(name) find(cuda, #name, functions_.name, problem_);
  DLAUNCH_CUDA_FUNCTIONS(DLAUNCH_FIND)
  DLAUNCH_FIND(cudaMalloc)
#undef DLAUNCH_FIND
  if (!problem_.empty()) {
    problem_.insert(0, "CUDA's runtime is not usable: ");
    return;
  }
  int driver = 0;
  if (functions_.cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    problem_ = "the NVIDIA driver does not work (nvidia-smi shows more)";
    return;  // NCCL, which takes long to load, would not help
  }
  void* const nccl = load("NCCL", {"libnccl.so.2"}, {"nccl/lib"}, problem_);
  if (nccl == nullptr) return;
#define DLAUNCH_FIND(name) find(nccl, #name, functions_.name, problem_);
  DLAUNCH_NCCL_FUNCTIONS(DLAUNCH_FIND)
#undef DLAUNCH_FIND
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
