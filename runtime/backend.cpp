#include "dlaunch/backend.h"

#include "dlaunch/transport.h"

namespace dlaunch {
inline namespace v1 {

// Here, so that the types' run-time information exists once, in libdlaunch.so (see error.cpp).
BackendStore::~BackendStore() = default;
Backend::~Backend() = default;
Transfer::~Transfer() = default;
Transport::~Transport() = default;

namespace {
[[noreturn]] void not_offered(const char* what) {
  throw DistBackendError(std::string("the backend does not offer ") + what);
}
}  // namespace

Work Backend::all_reduce(const Tensor&, const Reduction&, const Operation&) { not_offered("all_reduce"); }
Work Backend::broadcast(const Tensor&, int, const Operation&) { not_offered("broadcast"); }
Work Backend::all_gather(std::span<const Tensor>, const Tensor&, const Operation&) {
  not_offered("all_gather");
}
Work Backend::barrier(const Operation&) { not_offered("barrier"); }

}  // namespace v1
}  // namespace dlaunch
