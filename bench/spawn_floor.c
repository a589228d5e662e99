/* The floor: posix_spawn a program n times, wait for all. spawn_floor N PROGRAM */
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char** environ;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  int failed = 0;
  for (int n = atoi(argv[1]); n > 0; --n) {
    pid_t pid;
    failed |= posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, environ);
  }
  int status;
  while (wait(&status) > 0) failed |= status;
  return failed != 0;
}
