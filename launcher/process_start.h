// What dlaunch does first, so that nothing it was started with by accident comes in its way.
#pragma once

namespace dlaunch::launcher {

// Descriptors 0 to 2 are open: /dev/null stands where one was closed, else the next file opened would be
// taken for the standard output. SIGCHLD is not ignored, else nobody's end would be told. No signal is
// blocked.
void take_ordinary_start();

}  // namespace dlaunch::launcher
