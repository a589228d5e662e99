// The backend "threads": the ranks are threads of one process. For tests and for trying things out.
#pragma once

#include "dlaunch/backend.h"

namespace dlaunch {

const BackendModule& threads_module();

}  // namespace dlaunch
