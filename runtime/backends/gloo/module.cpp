// The module that libdlaunch.so loads for the backend "gloo".

#include <memory>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/backends/gloo/make_backend.h"

namespace {

bool viable(std::string& /*reason*/) { return true; }  // a module that was loaded has all it needs

std::unique_ptr<dlaunch::Backend> create(const dlaunch::BackendContext& context) {
  return dlaunch::internal::make_backend(context, dlaunch::internal::SharedMemoryUse::if_possible);
}

}  // namespace

const dlaunch::BackendModule dlaunch_backend_module = {
    dlaunch::backend_abi_version, "gloo", "cpu", viable, create, nullptr, false, true};
