// What a plan needs to know of this machine, read from it.
#pragma once

#include "launcher/options.h"
#include "launcher/plan.h"

namespace dlaunch::launcher {

// Only what `options` make necessary is read.
MachineFacts facts_of_this_machine(const Options& options, const Surroundings& around);

}  // namespace dlaunch::launcher
