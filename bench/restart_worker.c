/* Rank 0 of round 0 writes down when it dies; every worker of round 1 when it began.
   restart_worker FOLDER, which holds one file "ready.RANK" for each worker of round 0. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void write_now(const char* folder, const char* name, const char* rank) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%s", folder, name, rank);
  FILE* file = fopen(path, "w");
  if (!file) exit(9);
  fprintf(file, "%lld\n", (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
  fclose(file);
}

int main(int argc, char** argv) {
  const char* rank = getenv("RANK");
  const char* round = getenv("TORCHELASTIC_RESTART_COUNT");
  if (argc != 2 || !rank || !round) return 2;
  if (strcmp(round, "1") == 0) {
    write_now(argv[1], "began", rank);
    return 0;
  }
  write_now(argv[1], "ready", rank);
  if (strcmp(rank, "0") != 0) {
    pause();
    return 0;
  }
  const int workers = atoi(getenv("WORLD_SIZE"));
  for (int i = 0; i < workers; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s/ready.%d", argv[1], i);
    while (access(path, F_OK) != 0) usleep(1000);
  }
  usleep(50000); /* let the launcher come to rest */
  write_now(argv[1], "died", rank);
  _exit(3);
}
