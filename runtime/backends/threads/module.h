// The backend "threads": the ranks are threads of one process. For tests and first trials.
#pragma once

#include "dlaunch/backend.h"

namespace dlaunch::internal {

const BackendModule& threads_module();

}  // namespace dlaunch::internal
