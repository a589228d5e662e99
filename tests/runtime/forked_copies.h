// Copies that fork() makes of a process with threads.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace dlaunch::test {

// AddressSanitizer's allocator does not give up, in the copy, a lock that another thread held at fork(): a
// copy may hang in its next allocation. Such tests are left out there (GTEST_SKIP).
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool copies_may_hang = true;
#else
inline constexpr bool copies_may_hang = false;
#endif

// The exit code of a copy of this process that runs `body`, which returns it and must not allocate; -1: the
// copy was killed.
template <class Body>
int exit_code_of_copy(const Body& body) {
  const pid_t copy = fork();
  if (copy == 0) _exit(body());
  int status = -1;
  waitpid(copy, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace dlaunch::test
