// A module with another ABI number: only that number may be read.

#include <dlaunch/backend.h>

const dlaunch::BackendModule dlaunch_backend_module = {4711, nullptr, nullptr, nullptr, nullptr};
