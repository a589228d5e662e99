// The module that libdlaunch.so loads for the backend "gloo".

#include <memory>
#include <string>

#include "dlaunch/backend.h"
#include "dlaunch/collective_backend.h"
#include "runtime/backends/gloo/connect.h"

namespace {

bool viable(std::string& /*reason*/) { return true; }  // a module that was loaded has all it needs

std::unique_ptr<dlaunch::Backend> create(const dlaunch::BackendContext& context) {
  auto backend = std::make_unique<dlaunch::CollectiveBackend>(dlaunch::internal::connect_over_gloo(context));
  // This rank is connected to all, but perhaps not all ranks are. If this rank returned now and left at once,
  // the ranks that still connect would take it for lost.
  constexpr std::uint64_t before_all_others = 0;
  backend->barrier({before_all_others, context.deadline, false});
  return backend;
}

}  // namespace

const dlaunch::BackendModule dlaunch_backend_module = {dlaunch::backend_abi_version, "gloo", "cpu", viable,
                                                       create};
