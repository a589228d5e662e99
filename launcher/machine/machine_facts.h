// What a plan needs to know of this machine, read from it.
#pragma once

#include "launcher/options/options.h"
#include "launcher/options/plan.h"

namespace dlaunch::launcher {

// Only what `options` make necessary is read.
MachineFacts facts_of_this_machine(const Options& options, const Surroundings& around);

}  // namespace dlaunch::launcher
