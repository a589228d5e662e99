// A shared object that is no backend.

namespace dlaunch {
int nothing_to_see();
int nothing_to_see() { return 0; }
}  // namespace dlaunch
