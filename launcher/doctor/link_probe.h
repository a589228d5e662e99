// Measures the way from this host to another one.
#pragma once

#include "launcher/doctor/link.h"

namespace dlaunch::launcher {

// Takes less than a second on a good way, and at most half a minute. A name is looked up for as long as the
// name service allows.
LinkMeasurement measure_link(const ProbeTarget& target);

}  // namespace dlaunch::launcher
