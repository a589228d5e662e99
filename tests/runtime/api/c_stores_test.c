/* The stores of the C API from C: each call on each kind of store, and a process group over one. */
#include <dlaunch/dlaunch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(condition)                                                                  \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "line %d: %s does not hold; last error: %s\n", __LINE__, #condition, \
              dlaunch_last_error());                                                       \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

static const char* const both[] = {"a", "b"};
static const char* const missing[] = {"a", "missing"};

static void expect_value(const dlaunch_store* store, const char* key, const char* wanted, size_t length) {
  const char* value = NULL;
  size_t size = 0;
  EXPECT(dlaunch_store_get(store, key, &value, &size) == DLAUNCH_OK);
  EXPECT(size == length && memcmp(value, wanted, length) == 0 && value[size] == '\0');
}

static void values(const dlaunch_store* store) {
  int64_t sum = 0;
  int truth = -1;
  const char* value = NULL;
  size_t size = 0;
  EXPECT(dlaunch_store_set(store, "a", "x\0y", 3) == DLAUNCH_OK);
  expect_value(store, "a", "x\0y", 3);
  EXPECT(dlaunch_store_set(store, "b", NULL, 0) == DLAUNCH_OK);
  expect_value(store, "b", "", 0);
  EXPECT(dlaunch_store_add(store, "n", 1, NULL) == DLAUNCH_OK);
  EXPECT(dlaunch_store_add(store, "n", 6, &sum) == DLAUNCH_OK && sum == 7);
  EXPECT(dlaunch_store_add(store, "a", 1, &sum) == DLAUNCH_ERROR_STORE);
  EXPECT(strstr(dlaunch_last_error(), "its value is not a number") != NULL);
  EXPECT(dlaunch_store_compare_set(store, "c", NULL, 0, "1", 1, &value, &size) == DLAUNCH_OK);
  EXPECT(size == 1 && strcmp(value, "1") == 0);
  EXPECT(dlaunch_store_compare_set(store, "c", "2", 1, "3", 1, &value, &size) == DLAUNCH_OK);
  EXPECT(size == 1 && strcmp(value, "1") == 0);
  EXPECT(dlaunch_store_compare_set(store, "c", "1", 1, "4", 1, NULL, NULL) == DLAUNCH_OK);
  expect_value(store, "c", "4", 1);
  EXPECT(dlaunch_store_append(store, "c", "5", 1) == DLAUNCH_OK);
  expect_value(store, "c", "45", 2);
  EXPECT(dlaunch_store_delete_key(store, "c", &truth) == DLAUNCH_OK && truth == 1);
  EXPECT(dlaunch_store_delete_key(store, "c", &truth) == DLAUNCH_OK && truth == 0);
  EXPECT(dlaunch_store_delete_key(store, "c", NULL) == DLAUNCH_OK);
}

static void waits(const dlaunch_store* store) {
  int truth = -1;
  EXPECT(dlaunch_store_wait(store, both, 2, 0) == DLAUNCH_OK);
  EXPECT(dlaunch_store_wait_for(store, both, 2, 0, &truth) == DLAUNCH_OK && truth == 1);
  EXPECT(dlaunch_store_wait_for(store, missing, 2, 5, &truth) == DLAUNCH_OK && truth == 0);
  EXPECT(dlaunch_store_check(store, both, 2, &truth) == DLAUNCH_OK && truth == 1);
  EXPECT(dlaunch_store_check(store, missing, 2, &truth) == DLAUNCH_OK && truth == 0);
  EXPECT(dlaunch_store_wait(store, missing, 2, 5) == DLAUNCH_ERROR_STORE);
  const int64_t before = dlaunch_store_timeout(store);
  EXPECT(before == 30000);
  EXPECT(dlaunch_store_set_timeout(store, 5) == DLAUNCH_OK && dlaunch_store_timeout(store) == 5);
  EXPECT(dlaunch_store_wait(store, missing, 2, 0) == DLAUNCH_ERROR_STORE);
  EXPECT(strstr(dlaunch_last_error(), "waited 5 ms") != NULL);
  EXPECT(dlaunch_store_get(store, "missing", NULL, NULL) == DLAUNCH_ERROR_STORE);
  EXPECT(dlaunch_store_set_timeout(store, before) == DLAUNCH_OK);
  EXPECT(dlaunch_store_barrier(store, "ring", 1) == DLAUNCH_OK);
}

static void many(const dlaunch_store* store) {
  int64_t number = 0;
  int64_t after = 0;
  EXPECT(dlaunch_store_num_keys(store, &number) == DLAUNCH_OK && number >= 3);
  const void* const given[] = {"1", "22"};
  const char* got[2] = {NULL, NULL};
  size_t sizes[] = {1, 2};
  EXPECT(dlaunch_store_multi_set(store, both, 2, given, sizes) == DLAUNCH_OK);
  sizes[0] = sizes[1] = 0;
  EXPECT(dlaunch_store_multi_get(store, both, 2, got, sizes) == DLAUNCH_OK);
  EXPECT(strcmp(got[0], "1") == 0 && strcmp(got[1], "22") == 0 && sizes[0] == 1 && sizes[1] == 2);
  EXPECT(dlaunch_store_num_keys(store, &after) == DLAUNCH_OK && after == number);
  const char* const* keys = NULL;
  size_t count = 0;
  int found = 0;
  EXPECT(dlaunch_store_list_keys(store, &keys, &count) == DLAUNCH_OK);
  for (size_t i = 0; i < count; ++i) found += strcmp(keys[i], "a") == 0 || strcmp(keys[i], "b") == 0;
  EXPECT(found == 2);
}

static void queues(const dlaunch_store* store) {
  int64_t length = 0;
  const char* value = NULL;
  size_t size = 0;
  EXPECT(dlaunch_store_queue_push(store, "q", "one", 3) == DLAUNCH_OK);
  EXPECT(dlaunch_store_queue_len(store, "q", &length) == DLAUNCH_OK && length == 1);
  EXPECT(dlaunch_store_queue_pop(store, "q", 1, &value, &size) == DLAUNCH_OK);
  EXPECT(size == 3 && strcmp(value, "one") == 0);
  EXPECT(dlaunch_store_queue_pop(store, "q", 0, &value, &size) == DLAUNCH_OK && value == NULL);
}

static void tcp(void) {
  dlaunch_store* server = NULL;
  dlaunch_store* client = NULL;
  dlaunch_tcp_store_options options = {.timeout_ms = 30000, .world_size = 1, .is_master = 1};
  EXPECT(dlaunch_make_tcp_store("127.0.0.1", 0, &options, &server) == DLAUNCH_OK);
  const int port = dlaunch_store_port(server);
  EXPECT(port > 0 && dlaunch_store_is_serving(server) &&
         strcmp(dlaunch_store_host(server), "127.0.0.1") == 0);
  options = (dlaunch_tcp_store_options){.timeout_ms = 30000};
  EXPECT(dlaunch_make_tcp_store("127.0.0.1", (uint16_t)port, &options, &client) == DLAUNCH_OK);
  EXPECT(dlaunch_store_port(client) == port && !dlaunch_store_is_serving(client));
  values(client);
  waits(client);
  many(server);
  queues(server);
  dlaunch_store_free(client);
  EXPECT(dlaunch_make_tcp_store("127.0.0.1", 0, NULL, &client) == DLAUNCH_ERROR && client == NULL);
  dlaunch_store_free(server);
}

static void group_over(dlaunch_store* store) {
  dlaunch_init_options options = {.rank = 0, .world_size = 1, .store = store, .init_method = "env://"};
  EXPECT(dlaunch_init_process_group(&options) == DLAUNCH_ERROR);
  options.init_method = NULL;
  EXPECT(dlaunch_init_process_group(&options) == DLAUNCH_OK);
  EXPECT(dlaunch_barrier(NULL, 0, NULL) == DLAUNCH_OK && dlaunch_get_world_size(NULL) == 1);
  EXPECT(dlaunch_destroy_process_group() == DLAUNCH_OK);
}

static void errors(void) {
  dlaunch_store* store = NULL;
  const char* value = NULL;
  size_t size = 0;
  EXPECT(dlaunch_make_hash_store(0, NULL) == DLAUNCH_ERROR);
  EXPECT(dlaunch_make_tcp_store(NULL, 1, NULL, &store) == DLAUNCH_ERROR && store == NULL);
  EXPECT(dlaunch_make_file_store(NULL, 1, 0, &store) == DLAUNCH_ERROR);
  EXPECT(dlaunch_make_prefix_store("part", NULL, &store) == DLAUNCH_ERROR);
  EXPECT(dlaunch_store_get(NULL, "a", &value, &size) == DLAUNCH_ERROR);
  EXPECT(strcmp(dlaunch_last_error(), "the store is NULL") == 0);
  EXPECT(dlaunch_store_timeout(NULL) == -1 && dlaunch_store_port(NULL) == -1 && !dlaunch_store_host(NULL));
  EXPECT(dlaunch_make_hash_store(0, &store) == DLAUNCH_OK);
  EXPECT(dlaunch_store_timeout(store) == 300000);
  EXPECT(dlaunch_store_set(store, NULL, "x", 1) == DLAUNCH_ERROR);
  EXPECT(dlaunch_store_set(store, "a", NULL, 1) == DLAUNCH_ERROR);
  EXPECT(dlaunch_store_wait(store, NULL, 1, 1) == DLAUNCH_ERROR);
  EXPECT(dlaunch_store_check(store, both, 2, NULL) == DLAUNCH_ERROR);
  EXPECT(dlaunch_store_port(store) == -1 && !dlaunch_store_host(store) && !dlaunch_store_is_serving(store));
  dlaunch_store_free(store);
  dlaunch_store_free(NULL);
}

int main(void) {
  char folder[] = "/tmp/dlaunch_c_stores.XXXXXX";
  EXPECT(mkdtemp(folder) != NULL);
  char path[sizeof folder + 8];
  snprintf(path, sizeof path, "%s/store", folder);
  dlaunch_store* hash = NULL;
  dlaunch_store* part = NULL;
  dlaunch_store* file = NULL;
  EXPECT(dlaunch_make_hash_store(30000, &hash) == DLAUNCH_OK);
  EXPECT(dlaunch_make_prefix_store("part", hash, &part) == DLAUNCH_OK);
  EXPECT(dlaunch_make_file_store(path, 1, 30000, &file) == DLAUNCH_OK);
  const dlaunch_store* const all[] = {hash, part, file};
  for (size_t i = 0; i < 3; ++i) {
    values(all[i]);
    waits(all[i]);
    many(all[i]);
  }
  queues(part);
  EXPECT(dlaunch_store_queue_push(file, "q", "one", 3) == DLAUNCH_ERROR_STORE);
  tcp();
  group_over(hash);
  errors();
  dlaunch_store_free(part);
  dlaunch_store_free(hash);
  dlaunch_store_free(file);
  EXPECT(access(path, F_OK) != 0); /* world_size 1: the last one has removed it */
  EXPECT(rmdir(folder) == 0);
  return 0;
}
