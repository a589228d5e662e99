// The dlaunch that `dlaunch doctor --peer` starts on each host: it answers the other hosts' measurements, and
// makes those that it is ordered to make.
//
// It writes its facts, reads orders (one line of JSON each), and writes the measurement of each order. The
// lines are those of link_text.h.
#pragma once

namespace dlaunch::launcher {

// Reads standard input until its end, or until there is no order for two minutes. Returns the exit code.
int run_probe();

}  // namespace dlaunch::launcher
