/* What bindings use: a group over a store of the program, and the queue of ended operations; two ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlaunch/dlaunch.h"

#define EXPECT(condition)                                                                       \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, dlaunch_last_error()); \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)

/* The program's store: a file store behind the callbacks. */
static int calls_made = 0;
static int released = 0;

static int answer(int status, dlaunch_reply* reply) {
  ++calls_made;
  if (status) dlaunch_give_reply(reply, dlaunch_last_error(), strlen(dlaunch_last_error()));
  return status;
}
static int set(void* store, const char* key, const void* value, size_t size, dlaunch_reply* reply) {
  return answer(dlaunch_store_set(store, key, value, size), reply);
}
static int get(void* store, const char* key, dlaunch_reply* reply) {
  const char* value = NULL;
  size_t size = 0;
  const int status = dlaunch_store_get(store, key, &value, &size);
  if (!status) dlaunch_give_reply(reply, value, size);
  return answer(status, reply);
}
static int add(void* store, const char* key, int64_t amount, int64_t* sum, dlaunch_reply* reply) {
  return answer(dlaunch_store_add(store, key, amount, sum), reply);
}
static int compare_set(void* store, const char* key, const void* expected, size_t expected_size,
                       const void* desired, size_t desired_size, dlaunch_reply* reply) {
  const char* value = NULL;
  size_t size = 0;
  const int status =
      dlaunch_store_compare_set(store, key, expected, expected_size, desired, desired_size, &value, &size);
  if (!status) dlaunch_give_reply(reply, value, size);
  return answer(status, reply);
}
static int wait_for(void* store, const char* const* keys, size_t count, int64_t timeout_ms,
                    dlaunch_reply* reply) {
  int exist = 0;
  const int status = dlaunch_store_wait_for(store, keys, count, timeout_ms, &exist);
  return answer(status, reply) ? -1 : exist;
}
static int delete_key(void* store, const char* key, int* existed, dlaunch_reply* reply) {
  return answer(dlaunch_store_delete_key(store, key, existed), reply);
}
static int fails(void* store, const char* key, dlaunch_reply* reply) {
  (void)store, (void)key;
  dlaunch_give_reply(reply, "the disk is full", 16);
  return 1;
}
static void release(void* store) {
  ++released;
  dlaunch_store_free(store);
}

static const dlaunch_store_calls calls = {set, get, add, compare_set, wait_for, delete_key, release};

static void errors(void) {
  dlaunch_store* store = NULL;
  dlaunch_group* group = NULL;
  dlaunch_store_calls wrong = calls;
  wrong.add = NULL;
  EXPECT(dlaunch_make_program_store(&wrong, NULL, &store) == DLAUNCH_ERROR && store == NULL);
  wrong = calls;
  wrong.get = fails;
  wrong.release = NULL;
  EXPECT(dlaunch_make_program_store(&wrong, NULL, &store) == DLAUNCH_OK);
  EXPECT(dlaunch_store_get(store, "a", NULL, NULL) == DLAUNCH_ERROR_STORE);
  EXPECT(strstr(dlaunch_last_error(), "the disk is full") != NULL);
  const int twice[] = {3, 3};
  dlaunch_separate_group_options options = {.store = store, .world_size = 2, .ranks = twice};
  EXPECT(dlaunch_make_separate_group(&options, &group) == DLAUNCH_ERROR && group == NULL);
  options.store = NULL;
  EXPECT(dlaunch_make_separate_group(&options, &group) == DLAUNCH_ERROR && group == NULL);
  dlaunch_store_free(store);
}

/* Two asynchronous operations; their ends come from the queue. */
static void operations(const dlaunch_group* group, dlaunch_completions* queue) {
  float values[3] = {1, 2, 3};
  const int64_t shape[] = {3};
  const dlaunch_tensor tensor = {values, DLAUNCH_FLOAT32, shape, 1, DLAUNCH_CPU, 0};
  dlaunch_work* works[2];
  EXPECT(dlaunch_all_reduce(&tensor, DLAUNCH_SUM, group, 0, &works[0]) == DLAUNCH_OK);
  EXPECT(dlaunch_broadcast(&tensor, 3, group, 0, &works[1]) == DLAUNCH_OK); /* a rank of the job */
  uint64_t seen = 0;
  for (uint64_t i = 0; i < 2; ++i) EXPECT(dlaunch_work_notify(works[i], queue, i + 1) == DLAUNCH_OK);
  for (size_t ended = 0; ended < 2;) {
    uint64_t tokens[1];
    size_t count = 0;
    EXPECT(dlaunch_completions_next(queue, 30000, tokens, 1, &count) == DLAUNCH_OK && count == 1);
    seen += tokens[0];
    ended += count;
  }
  EXPECT(seen == 3);
  for (int i = 0; i < 2; ++i) {
    EXPECT(dlaunch_work_wait(works[i], 0) == DLAUNCH_OK && dlaunch_work_is_success(works[i]));
    dlaunch_work_free(works[i]);
  }
  EXPECT(values[0] == 2 && values[2] == 6);
  size_t count = 1;
  uint64_t none[1];
  EXPECT(dlaunch_completions_next(queue, 1, none, 1, &count) == DLAUNCH_OK && count == 0);
}

static void run(const char* path, int rank) {
  dlaunch_store* file = NULL;
  dlaunch_store* store = NULL;
  dlaunch_completions* queue = NULL;
  EXPECT(dlaunch_make_file_store(path, -1, 30000, &file) == DLAUNCH_OK);
  EXPECT(dlaunch_make_program_store(&calls, file, &store) == DLAUNCH_OK);
  EXPECT(dlaunch_completions_make(&queue) == DLAUNCH_OK);
  const int ranks[] = {5, 3};
  const dlaunch_separate_group_options options = {
      .store = store, .rank = rank, .world_size = 2, .ranks = ranks, .timeout_ms = 60000, .name = "bindings"};
  for (int time = 0; time < 2; ++time) { /* once more with the same store */
    dlaunch_group* group = NULL;
    EXPECT(dlaunch_make_separate_group(&options, &group) == DLAUNCH_OK);
    /* Rank 1 makes no call about the default group, so its process ends without ever having had one. */
    EXPECT(rank == 1 || !dlaunch_is_initialized());
    EXPECT(dlaunch_get_rank(group) == rank && dlaunch_get_global_rank(group, rank) == ranks[rank]);
    operations(group, queue);
    EXPECT(dlaunch_destroy_group(group) == DLAUNCH_OK);
    EXPECT(rank == 1 || dlaunch_destroy_group(group) == DLAUNCH_ERROR);
    dlaunch_group_free(group);
  }
  EXPECT(calls_made > 0);
  dlaunch_completions_free(queue);
  dlaunch_store_free(store);
  EXPECT(released == 1);
}

int main(void) {
  char folder[] = "/tmp/dlaunch_c_bindings.XXXXXX";
  EXPECT(mkdtemp(folder) != NULL);
  char path[sizeof folder + 8];
  snprintf(path, sizeof path, "%s/store", folder);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    run(path, 1);
    return 0;
  }
  errors();
  run(path, 0);
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT(unlink(path) == 0 && rmdir(folder) == 0);
  return 0;
}
