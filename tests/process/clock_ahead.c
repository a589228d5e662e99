// Preloaded into a process, it sets its wall clock ahead by DLAUNCH_TEST_CLOCK_AHEAD seconds: the clock of
// another host, which one machine does not have.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long failed = syscall(SYS_clock_gettime, clock, now);
  const char* const ahead = getenv("DLAUNCH_TEST_CLOCK_AHEAD");
  if (failed == 0 && clock == CLOCK_REALTIME && ahead != NULL) now->tv_sec += atol(ahead);
  return (int)failed;
}
