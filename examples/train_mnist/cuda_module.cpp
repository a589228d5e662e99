#include "examples/train_mnist/cuda_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace mnist {
namespace {

// lib/ beside the program's bin/, as libdlaunch is.
std::filesystem::path module_path() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "lib" / "train_mnist_cuda.so";
}

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error("--device=cuda: " + why); }

}  // namespace

std::unique_ptr<Device> open_cuda_device(const Dataset& train, const Dataset& test, std::size_t local_rank) {
  const std::filesystem::path path = module_path();
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    fail("this build of train_mnist has no CUDA, " + path.string() +
         " is not there; build it where CMake finds nvcc and cuBLAS (CUDACXX, CUDA_HOME), or use "
         "--device=cpu");
  // It stays loaded: the device's code is in it.
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr)
    fail(std::string("cannot load its module: ") + dlerror() +
         "; LD_LIBRARY_PATH must name the folders of CUDA's runtime and cuBLAS, or use --device=cpu");
  auto* const make = reinterpret_cast<MakeCudaDevice*>(dlsym(module, make_cuda_device_name));
  if (make == nullptr) fail(path.string() + " is not of this build: it has no " + make_cuda_device_name);
  return std::unique_ptr<Device>(make(train, test, local_rank));
}

}  // namespace mnist
