// The module that libdlaunch.so loads for the backend "shm".

#include <memory>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/backends/gloo/make_backend.h"

namespace {

bool viable(std::string& /*reason*/) { return true; }  // whether the ranks share memory is found by trying

std::unique_ptr<dlaunch::Backend> create(const dlaunch::BackendContext& context) {
  return dlaunch::internal::make_backend(context, dlaunch::internal::SharedMemoryUse::required);
}

}  // namespace

const dlaunch::BackendModule dlaunch_backend_module = {
    dlaunch::backend_abi_version, "shm", "cpu", viable, create, nullptr, false, true};
