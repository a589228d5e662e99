// ThreadSanitizer looks at each access to memory, of which long data have many of the same kind.
#pragma once

namespace dlaunch::test {

// By how much shorter long data are if everything takes as many times longer.
#if defined(__SANITIZE_THREAD__)
inline constexpr int slowness = 10;
#else
inline constexpr int slowness = 1;
#endif

}  // namespace dlaunch::test
