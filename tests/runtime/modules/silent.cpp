// A shared object that is not a backend.

namespace dlaunch {
int nothing_to_see();
int nothing_to_see() { return 0; }
}  // namespace dlaunch
