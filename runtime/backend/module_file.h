// Parts of the library that only some programs need are modules beside it, in the folders of the backends.
#pragma once

#include <string>

namespace dlaunch::internal {

// Returns the symbol of a module, which then stays loaded. Throws a DistStoreError that begins with
// `what_fails`.
void* find_in_module(const std::string& file, const char* symbol, const std::string& what_fails);

}  // namespace dlaunch::internal
