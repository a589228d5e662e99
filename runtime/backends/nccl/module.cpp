// The module that libdlaunch.so loads for the backend "nccl".

#include <memory>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/backends/nccl/nccl_backend.h"
#include "runtime/backends/nccl/nccl_library.h"

namespace {

bool viable(std::string& reason) {
  reason = dlaunch::internal::why_no_device();
  return reason.empty();
}

std::unique_ptr<dlaunch::Backend> create(const dlaunch::BackendContext& context) {
  return std::make_unique<dlaunch::internal::NcclBackend>(context);
}

}  // namespace

const dlaunch::BackendModule dlaunch_backend_module = {
    dlaunch::backend_abi_version, "nccl", "cuda", viable, create, nullptr, true};
