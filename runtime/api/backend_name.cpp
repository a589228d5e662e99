#include "dlaunch/backend_name.h"

#include "runtime/group/backend_choice.h"
#include "runtime/group/world.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

// Without the registry, which must not be created when the library is loaded.
const BackendName BackendName::gloo(Known{}, "gloo");
const BackendName BackendName::nccl(Known{}, "nccl");
const BackendName BackendName::mpi(Known{}, "mpi");
const BackendName BackendName::ucc(Known{}, "ucc");
const BackendName BackendName::undefined(Known{}, "undefined");

BackendName::BackendName(std::string_view text) : text_(checked_name(registry(), text)) {}

}  // namespace v1
}  // namespace dlaunch
