/* rank_sum.cpp in C: every worker says who it is and what all ranks add up to.
 *
 *   $ dlaunch --nproc-per-node=4 rank_sum_c
 */
#include <dlaunch/dlaunch.h>

#include <stdio.h>

static int failed(const char* what) {
  fprintf(stderr, "rank_sum_c: %s: %s\n", what, dlaunch_last_error());
  return 1;
}

int main(void) {
  if (dlaunch_init_process_group(NULL) != DLAUNCH_OK) return failed("init");

  int64_t sum = dlaunch_get_rank(NULL);
  const int64_t one = 1;
  const dlaunch_tensor tensor = {.data = &sum, .dtype = DLAUNCH_INT64, .shape = &one, .dims = 1};
  if (dlaunch_all_reduce(&tensor, DLAUNCH_SUM, NULL, 0, NULL) != DLAUNCH_OK) return failed("all_reduce");

  printf("rank %d of %d: sum of ranks = %lld\n", dlaunch_get_rank(NULL), dlaunch_get_world_size(NULL),
         (long long)sum);
  if (dlaunch_destroy_process_group() != DLAUNCH_OK) return failed("destroy");
  return 0;
}
