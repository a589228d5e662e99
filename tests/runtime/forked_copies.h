// Copies that fork() makes of a process with threads.
#pragma once

namespace dlaunch::test {

// AddressSanitizer's allocator does not give up, in the copy, a lock that another thread held at fork(): a
// copy may hang in its next allocation. Such tests are left out there (GTEST_SKIP).
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool copies_may_hang = true;
#else
inline constexpr bool copies_may_hang = false;
#endif

}  // namespace dlaunch::test
