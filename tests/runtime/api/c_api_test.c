/* The C API from C: every call once, on as many ranks as the launcher starts. */
#include <dlaunch/dlaunch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                  \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "line %d: %s does not hold; last error: %s\n", __LINE__, #condition, \
              dlaunch_last_error());                                                       \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

enum { most_ranks = 8 };

static dlaunch_tensor view(int32_t* data, const int64_t* count) {
  const dlaunch_tensor tensor = {.data = data, .dtype = DLAUNCH_INT32, .shape = count, .dims = 1};
  return tensor;
}

static void errors(void) {
  EXPECT(dlaunch_barrier(NULL, 0, NULL) == DLAUNCH_ERROR);
  EXPECT(strstr(dlaunch_last_error(), "has not been initialized") != NULL);
  EXPECT(dlaunch_get_rank(NULL) == -1 && dlaunch_get_world_size(NULL) == -1);
  EXPECT(dlaunch_get_backend(NULL) == NULL);
  EXPECT(dlaunch_is_initialized() == 0);
  EXPECT(dlaunch_is_backend_available("no such") == 0 && dlaunch_is_backend_available(NULL) == 0);
  dlaunch_init_options options = {.backend = "no such"};
  EXPECT(dlaunch_init_process_group(&options) == DLAUNCH_ERROR_BACKEND);
}

static void wrong_arguments(void) {
  int32_t value = 1;
  const int64_t one = 1;
  dlaunch_tensor tensor = view(&value, &one);
  EXPECT(dlaunch_all_reduce(NULL, DLAUNCH_SUM, NULL, 0, NULL) == DLAUNCH_ERROR);
  EXPECT(strcmp(dlaunch_last_error(), "a tensor is NULL") == 0);
  EXPECT(dlaunch_all_reduce(&tensor, 99, NULL, 0, NULL) == DLAUNCH_ERROR);
  EXPECT(dlaunch_broadcast(&tensor, 99, NULL, 0, NULL) == DLAUNCH_ERROR);
  tensor.dtype = DLAUNCH_FLOAT8_E5M2 + 1;
  EXPECT(dlaunch_all_reduce(&tensor, DLAUNCH_SUM, NULL, 0, NULL) == DLAUNCH_ERROR);
  EXPECT(strcmp(dlaunch_last_error(), "14 is not a dtype") == 0);
  tensor = view(&value, NULL);
  EXPECT(dlaunch_all_reduce(&tensor, DLAUNCH_SUM, NULL, 0, NULL) == DLAUNCH_ERROR);
  EXPECT(dlaunch_work_wait(NULL, 0) == DLAUNCH_ERROR);
  EXPECT(dlaunch_new_group(NULL, 0, 0, NULL) == DLAUNCH_ERROR);
}

static void shared_memory(int size) {
  enum { bytes = 400000 };
  const int64_t count = bytes / sizeof(int32_t);
  void* memory = NULL;
  int is_shared = -1;
  EXPECT(dlaunch_allocate_shared(bytes, NULL, &memory, &is_shared) == DLAUNCH_OK);
  EXPECT(is_shared == (size > 1));
  int32_t* const values = memory;
  for (int64_t i = 0; i < count; ++i) {
    EXPECT(values[i] == 0);
    values[i] = 2;
  }
  const dlaunch_tensor tensor = view(values, &count);
  EXPECT(dlaunch_all_reduce(&tensor, DLAUNCH_SUM, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(values[0] == 2 * size && values[count - 1] == 2 * size);
  EXPECT(dlaunch_free_shared(values + 1) == DLAUNCH_ERROR);
  EXPECT(dlaunch_free_shared(values) == DLAUNCH_OK);
  EXPECT(dlaunch_free_shared(values) == DLAUNCH_ERROR);
  EXPECT(strstr(dlaunch_last_error(), "it is freed already") != NULL);
  EXPECT(dlaunch_free_shared(NULL) == DLAUNCH_OK);
  EXPECT(dlaunch_allocate_shared(0, NULL, &memory, NULL) == DLAUNCH_OK && memory == NULL);
  EXPECT(dlaunch_allocate_shared(1, NULL, NULL, NULL) == DLAUNCH_ERROR);
}

static void collectives(int rank, int size) {
  const int64_t one = 1;
  const int64_t all = size;
  int32_t own = rank + 1;
  int32_t many[most_ranks] = {0};
  int32_t back[most_ranks] = {0};
  const dlaunch_tensor own_view = view(&own, &one);
  const dlaunch_tensor many_view = view(many, &all);
  const dlaunch_tensor back_view = view(back, &all);
  dlaunch_tensor parts[most_ranks] = {0};
  dlaunch_tensor back_parts[most_ranks] = {0};
  for (int i = 0; i < size; ++i) {
    parts[i] = view(&many[i], &one);
    back_parts[i] = view(&back[i], &one);
  }
  const size_t count = (size_t)size;

  EXPECT(dlaunch_all_gather(parts, count, &own_view, NULL, 0, NULL) == DLAUNCH_OK);
  for (int i = 0; i < size; ++i) EXPECT(many[i] == i + 1);
  EXPECT(dlaunch_all_gather_into_tensor(&many_view, &own_view, NULL, 0, NULL) == DLAUNCH_OK);
  for (int i = 0; i < size; ++i) EXPECT(many[i] == i + 1);

  EXPECT(dlaunch_gather(rank == 0 ? back_parts : NULL, rank == 0 ? count : 0, &own_view, 0, NULL, 0, NULL) ==
         DLAUNCH_OK);
  if (rank == 0) EXPECT(back[size - 1] == size);
  EXPECT(dlaunch_scatter(&own_view, rank == 0 ? back_parts : NULL, rank == 0 ? count : 0, 0, NULL, 0, NULL) ==
         DLAUNCH_OK);
  EXPECT(own == rank + 1);

  int32_t part = 0;
  const dlaunch_tensor part_view = view(&part, &one);
  EXPECT(dlaunch_reduce_scatter(&part_view, parts, count, DLAUNCH_SUM, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(part == size * (rank + 1));
  EXPECT(dlaunch_reduce_scatter_tensor(&part_view, &many_view, DLAUNCH_MAX, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(part == rank + 1);

  for (int i = 0; i < size; ++i) many[i] = 10 * rank + i;
  EXPECT(dlaunch_all_to_all(back_parts, parts, count, NULL, 0, NULL) == DLAUNCH_OK);
  for (int i = 0; i < size; ++i) EXPECT(back[i] == 10 * i + rank);
  int64_t splits[most_ranks];
  for (int i = 0; i < size; ++i) splits[i] = 1;
  memset(back, 0, sizeof back);
  EXPECT(dlaunch_all_to_all_single(&back_view, &many_view, splits, NULL, NULL, 0, NULL) == DLAUNCH_OK);
  for (int i = 0; i < size; ++i) EXPECT(back[i] == 10 * i + rank);

  EXPECT(dlaunch_broadcast(&own_view, size - 1, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(own == size);
  EXPECT(dlaunch_reduce(&own_view, 0, DLAUNCH_SUM, NULL, 60000, NULL) == DLAUNCH_OK);
  EXPECT(own == (rank == 0 ? size * size : size));
  EXPECT(dlaunch_barrier(NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(dlaunch_monitored_barrier(NULL, 60000, 1) == DLAUNCH_OK);

  float half = 1;
  const dlaunch_tensor half_view = {.data = &half, .dtype = DLAUNCH_FLOAT32, .shape = &one, .dims = 1};
  EXPECT(dlaunch_all_reduce_premul_sum(&half_view, 0.5, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(half == (float)size / 2);
  own = 1;
  part = 2;
  const dlaunch_tensor both[] = {own_view, part_view};
  EXPECT(dlaunch_all_reduce_coalesced(both, 2, DLAUNCH_SUM, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(own == size && part == 2 * size);

  dlaunch_work* work = NULL;
  EXPECT(dlaunch_all_reduce(&many_view, DLAUNCH_BOR, NULL, 0, &work) == DLAUNCH_OK);
  EXPECT(work != NULL && dlaunch_work_wait(work, 60000) == DLAUNCH_OK);
  EXPECT(dlaunch_work_is_completed(work) == 1 && dlaunch_work_is_success(work) == 1);
  EXPECT(dlaunch_work_source_rank(work) == -1 && dlaunch_work_source_rank(NULL) == -1);
  dlaunch_work_free(work);
}

static void messages(int rank, int size) {
  const int64_t one = 1;
  int32_t out = rank;
  int32_t in = -1;
  const dlaunch_tensor out_view = view(&out, &one);
  const dlaunch_tensor in_view = view(&in, &one);
  dlaunch_work* sent = NULL;
  EXPECT(dlaunch_send(&out_view, (rank + 1) % size, 5, NULL, 0, &sent) == DLAUNCH_OK);
  int source = -1;
  EXPECT(dlaunch_recv(&in_view, DLAUNCH_ANY_SOURCE, 5, NULL, 0, &source, NULL) == DLAUNCH_OK);
  EXPECT(in == (rank + size - 1) % size && source == in);
  EXPECT(dlaunch_work_wait(sent, 0) == DLAUNCH_OK);
  dlaunch_work_free(sent);
  dlaunch_work* received = NULL;
  EXPECT(dlaunch_recv(&in_view, DLAUNCH_ANY_SOURCE, 6, NULL, 0, NULL, &received) == DLAUNCH_OK);
  EXPECT(dlaunch_send(&out_view, (rank + 1) % size, 6, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(dlaunch_work_wait(received, 0) == DLAUNCH_OK);
  EXPECT(dlaunch_work_source_rank(received) == (rank + size - 1) % size);
  dlaunch_work_free(received);
  dlaunch_work_free(NULL);
}

static void groups(int rank, int size) {
  const int first = 0;
  dlaunch_group* group = NULL;
  EXPECT(dlaunch_new_group(&first, 1, 0, &group) == DLAUNCH_OK);
  EXPECT(dlaunch_get_rank(group) == (rank == 0 ? 0 : -1) && dlaunch_get_world_size(group) == 1);
  EXPECT(dlaunch_get_group_rank(group, 0) == 0 && dlaunch_get_group_rank(group, 1) == -1);
  EXPECT(dlaunch_get_global_rank(group, 0) == 0 && dlaunch_get_global_rank(group, 7) == -1);
  EXPECT(dlaunch_set_timeout(group, 0) == DLAUNCH_ERROR);
  EXPECT((dlaunch_set_timeout(group, 1000) == DLAUNCH_OK) == (rank == 0));
  EXPECT(dlaunch_barrier(group, 0, NULL) == DLAUNCH_OK);
  EXPECT(dlaunch_destroy_group(group) == DLAUNCH_OK);
  dlaunch_group_free(group);
  dlaunch_group_free(NULL);
  EXPECT(dlaunch_new_group(NULL, 0, 60000, &group) == DLAUNCH_OK);
  EXPECT(dlaunch_get_world_size(group) == size);
  EXPECT(dlaunch_barrier(NULL, 0, NULL) == DLAUNCH_OK); /* nobody is still joining */
  EXPECT(dlaunch_abort(group, "enough") == DLAUNCH_OK);
  EXPECT(dlaunch_barrier(group, 0, NULL) != DLAUNCH_OK);
  EXPECT(strstr(dlaunch_last_error(), "enough") != NULL);
  dlaunch_group_free(group);
}

static void coalesced(int rank, int size) {
  const int64_t one = 1;
  const int64_t all = size;
  int32_t own[2] = {rank, 10 * rank};
  int32_t many[2][most_ranks] = {{0}};
  const dlaunch_tensor inputs[2] = {view(&own[0], &one), view(&own[1], &one)};
  const dlaunch_tensor outputs[2] = {view(many[0], &all), view(many[1], &all)};
  EXPECT(dlaunch_all_gather_into_tensor_coalesced(outputs, inputs, 2, NULL, 0, NULL) == DLAUNCH_OK);
  for (int i = 0; i < size; ++i) EXPECT(many[0][i] == i && many[1][i] == 10 * i);
  EXPECT(dlaunch_reduce_scatter_tensor_coalesced(inputs, outputs, 2, DLAUNCH_SUM, NULL, 0, NULL) ==
         DLAUNCH_OK);
  EXPECT(own[0] == size * rank && own[1] == 10 * size * rank);

  float values[most_ranks];
  float part = 0;
  for (int i = 0; i < size; ++i) values[i] = 2;
  dlaunch_tensor parts[most_ranks];
  for (int i = 0; i < size; ++i) {
    parts[i] = (dlaunch_tensor){.data = &values[i], .dtype = DLAUNCH_FLOAT32, .shape = &one, .dims = 1};
  }
  const dlaunch_tensor whole = {.data = values, .dtype = DLAUNCH_FLOAT32, .shape = &all, .dims = 1};
  const dlaunch_tensor to = {.data = &part, .dtype = DLAUNCH_FLOAT32, .shape = &one, .dims = 1};
  EXPECT(dlaunch_reduce_scatter_premul_sum(&to, parts, (size_t)size, 0.5, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(part == (float)size);
  EXPECT(dlaunch_reduce_scatter_tensor_premul_sum(&to, &whole, 1.5, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(part == 3 * (float)size);
  part = 4;
  EXPECT(dlaunch_reduce_premul_sum(&to, 0, 0.25, NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(part == (rank == 0 ? (float)size : 4));
}

static void batch(int rank, int size) {
  const int64_t one = 1;
  int32_t out = rank;
  int32_t in = -1;
  dlaunch_p2p_op ops[2] = {
      {.kind = DLAUNCH_ISEND, .tensor = view(&out, &one), .peer = (rank + 1) % size, .tag = 8},
      {.kind = DLAUNCH_IRECV, .tensor = view(&in, &one), .peer = (rank + size - 1) % size, .tag = 8}};
  dlaunch_work* works[2] = {NULL, NULL};
  EXPECT(dlaunch_batch_isend_irecv(ops, 2, NULL, works) == DLAUNCH_OK);
  for (int i = 0; i < 2; ++i) {
    EXPECT(dlaunch_work_wait(works[i], 0) == DLAUNCH_OK);
    dlaunch_work_free(works[i]);
  }
  EXPECT(in == (rank + size - 1) % size);
  EXPECT(dlaunch_batch_isend_irecv(ops, 2, NULL, NULL) == DLAUNCH_ERROR);
  EXPECT(dlaunch_batch_isend_irecv(NULL, 0, NULL, NULL) == DLAUNCH_OK);
  ops[0].kind = 7;
  EXPECT(dlaunch_batch_isend_irecv(ops, 2, NULL, works) == DLAUNCH_ERROR);
  EXPECT(strstr(dlaunch_last_error(), "7 is neither DLAUNCH_ISEND") != NULL);
}

static void more_groups(int rank, int size) {
  int ranks[most_ranks];
  EXPECT(dlaunch_get_process_group_ranks(NULL, ranks, (size_t)size) == DLAUNCH_OK);
  for (int i = 0; i < size; ++i) EXPECT(ranks[i] == i);
  EXPECT(dlaunch_get_process_group_ranks(NULL, ranks, (size_t)size + 1) == DLAUNCH_ERROR);
  EXPECT(dlaunch_get_pg_count() >= 1);
  EXPECT(strcmp(dlaunch_get_backend_config(NULL), "cpu:gloo,cuda:gloo") == 0);

  const dlaunch_group_options local = {.use_local_synchronization = 1, .timeout_ms = 60000, .name = "last"};
  const int last = size - 1;
  dlaunch_group* group = NULL;
  EXPECT(dlaunch_new_group_with(&last, 1, &local, &group) == DLAUNCH_OK);
  EXPECT((group != NULL) == (rank == last));
  if (group != NULL) EXPECT(dlaunch_get_world_size(group) == 1);
  dlaunch_group_free(group);

  EXPECT(dlaunch_new_subgroups(1, NULL, &group) == DLAUNCH_OK);
  EXPECT(dlaunch_get_global_rank(group, 0) == rank && dlaunch_get_world_size(group) == 1);
  dlaunch_group_free(group);
  EXPECT(dlaunch_new_subgroups(size + 1, NULL, &group) == DLAUNCH_ERROR);

  /* The first rank, and all others. */
  const size_t sizes[2] = {1, (size_t)size - 1};
  const size_t lists = size > 1 ? 2 : 1;
  EXPECT(dlaunch_new_subgroups_by_enumeration(ranks, sizes, lists, NULL, &group) == DLAUNCH_OK);
  EXPECT(dlaunch_get_world_size(group) == (rank == 0 ? 1 : size - 1));
  dlaunch_group_free(group);
  EXPECT(dlaunch_split_group(NULL, ranks, sizes, lists, NULL, &group) == DLAUNCH_OK);
  EXPECT(dlaunch_get_world_size(group) == (rank == 0 ? 1 : size - 1));
  EXPECT(dlaunch_barrier(group, 0, NULL) == DLAUNCH_OK);
  dlaunch_group_free(group);
}

static void meshes(int rank, int size) {
  const int shape[2] = {1, size};
  const char* const names[2] = {"dp", "tp"};
  dlaunch_mesh* mesh = NULL;
  EXPECT(dlaunch_init_device_mesh("cpu", shape, 2, names, &mesh) == DLAUNCH_OK);
  EXPECT(dlaunch_mesh_ndim(mesh) == 2 && dlaunch_mesh_size(mesh, 1) == size &&
         dlaunch_mesh_size(mesh, 2) == -1);
  EXPECT(dlaunch_mesh_dim(mesh, "tp") == 1 && dlaunch_mesh_dim(mesh, "pp") == -1);
  EXPECT(dlaunch_mesh_get_local_rank(mesh, 0) == 0 && dlaunch_mesh_get_local_rank(mesh, 1) == rank);
  dlaunch_group* line = NULL;
  EXPECT(dlaunch_mesh_get_group(mesh, 1, &line) == DLAUNCH_OK && dlaunch_get_world_size(line) == size);
  EXPECT(dlaunch_barrier(line, 0, NULL) == DLAUNCH_OK);
  dlaunch_group_free(line);
  dlaunch_mesh* part = NULL;
  EXPECT(dlaunch_mesh_slice(mesh, &names[1], 1, &part) == DLAUNCH_OK && dlaunch_mesh_ndim(part) == 1);
  dlaunch_mesh_free(part);
  EXPECT(dlaunch_mesh_flatten(mesh, NULL, &part) == DLAUNCH_OK && dlaunch_mesh_dim(part, "dp_tp") == 0);
  dlaunch_mesh_free(part);
  dlaunch_mesh_free(mesh);
  int ranks[most_ranks];
  for (int i = 0; i < size; ++i) ranks[i] = size - 1 - i;
  EXPECT(dlaunch_device_mesh("cpu", ranks, &size, 1, NULL, &mesh) == DLAUNCH_OK);
  EXPECT(dlaunch_mesh_get_local_rank(mesh, 0) == size - 1 - rank);
  dlaunch_mesh_free(mesh);
  const int too_many = 1 << 30;
  EXPECT(dlaunch_device_mesh("cpu", ranks, &too_many, 1, NULL, &mesh) == DLAUNCH_ERROR);
  EXPECT(dlaunch_init_device_mesh("tpu", shape, 2, NULL, &mesh) == DLAUNCH_ERROR);
  dlaunch_mesh_free(NULL);
}

static void where_an_error_was(int rank) {
  int32_t value = 1;
  const int64_t one = 1;
  const dlaunch_tensor tensor = view(&value, &one);
  const dlaunch_group_options options = {.name = "alone"};
  dlaunch_group* group = NULL;
  EXPECT(dlaunch_new_subgroups(1, &options, &group) == DLAUNCH_OK);
  EXPECT(dlaunch_recv(&tensor, rank, 77, group, 20, NULL, NULL) == DLAUNCH_ERROR_NETWORK);
  dlaunch_error_context context;
  dlaunch_last_error_context(&context);
  EXPECT(context.rank == 0 && context.peer == 0 && context.sequence == 1); /* in that group */
  EXPECT(strcmp(context.operation, "recv") == 0 && strcmp(context.group, "alone") == 0);
  EXPECT(strlen(context.host) > 0);
  dlaunch_group_free(group);
  dlaunch_last_error_context(NULL);
}

static void count_barriers(const dlaunch_profiling_event* event, void* context) {
  if (strcmp(event->name, "barrier") == 0 && strcmp(event->group, "default") == 0)
    ++((int*)context)[event->kind];
}

static void count_messages(int level, const char* message, void* context) {
  if (level == DLAUNCH_LOG_WARNING && strlen(message) > 0) ++*(int*)context;
}

static void callbacks(int rank) {
  int barriers[2] = {0, 0};
  EXPECT(dlaunch_set_profiling_callback(count_barriers, barriers) == DLAUNCH_OK);
  EXPECT(dlaunch_barrier(NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(dlaunch_set_profiling_callback(NULL, NULL) == DLAUNCH_OK);
  EXPECT(barriers[DLAUNCH_BEGIN] == 1 && barriers[DLAUNCH_END] == 1);

  /* The warning that nobody has waited for an operation that failed. */
  int messages = 0;
  int32_t value = 1;
  const int64_t one = 1;
  const dlaunch_tensor tensor = view(&value, &one);
  dlaunch_group* group = NULL;
  EXPECT(dlaunch_new_subgroups(1, NULL, &group) == DLAUNCH_OK);
  EXPECT(dlaunch_set_log_handler(count_messages, &messages) == DLAUNCH_OK);
  dlaunch_work* never = NULL;
  EXPECT(dlaunch_recv(&tensor, rank, 1, group, 1, NULL, &never) == DLAUNCH_OK);
  while (!dlaunch_work_is_completed(never)) continue;
  dlaunch_work_free(never);
  EXPECT(dlaunch_destroy_group(group) == DLAUNCH_OK);
  dlaunch_group_free(group);
  EXPECT(dlaunch_set_log_handler(NULL, NULL) == DLAUNCH_OK);
  EXPECT(messages >= 1);
}

static void surroundings(void) {
  EXPECT(dlaunch_is_gloo_available() == 1 && dlaunch_is_mpi_available() == 0);
  EXPECT(dlaunch_is_nccl_available() == dlaunch_is_backend_available("nccl"));
  EXPECT(dlaunch_add_call_site(NULL, 1, "main") == 0);
  const uint32_t call_site = dlaunch_add_call_site(__FILE__, __LINE__, __func__);
  EXPECT(call_site != 0 && dlaunch_add_call_site(__FILE__, __LINE__, __func__) == call_site + 1);
  *dlaunch_thread_call_site() = call_site;
  EXPECT(dlaunch_barrier(NULL, 0, NULL) == DLAUNCH_OK);
  *dlaunch_thread_call_site() = 0;
  EXPECT(dlaunch_is_dlaunch_launched() == 1 && dlaunch_is_torchelastic_launched() == 1);
  const char* token = getenv("DLAUNCH_FENCING_TOKEN");
  EXPECT(token != NULL && dlaunch_fencing_token() == strtoull(token, NULL, 10));
  EXPECT(dlaunch_fencing_token() > 1000000 && dlaunch_fencing_token() < UINT64_C(1) << 53);
  EXPECT(setenv("DLAUNCH_FENCING_TOKEN", "many", 1) == 0 && dlaunch_fencing_token() == UINT64_MAX);
  EXPECT(strstr(dlaunch_last_error(), "DLAUNCH_FENCING_TOKEN: 'many'") != NULL);
  EXPECT(unsetenv("DLAUNCH_FENCING_TOKEN") == 0 && dlaunch_fencing_token() == 0);
  EXPECT(strcmp(dlaunch_get_default_backend_for_device("cpu"), "gloo") == 0);
  EXPECT(dlaunch_get_default_backend_for_device("tpu") == NULL);
}

static void debugging(int rank) {
  EXPECT(dlaunch_get_node_local_rank() == rank); /* all are on one node */
  EXPECT(dlaunch_set_debug_level(99) == DLAUNCH_ERROR);
  EXPECT(dlaunch_set_debug_level(DLAUNCH_DEBUG_DETAIL) == DLAUNCH_OK);
  EXPECT(dlaunch_get_debug_level() == DLAUNCH_DEBUG_DETAIL);
  EXPECT(dlaunch_barrier(NULL, 0, NULL) == DLAUNCH_OK);
  EXPECT(dlaunch_start_trace("/no/such/directory/trace.json") == DLAUNCH_ERROR);
  EXPECT(dlaunch_start_trace(NULL) == DLAUNCH_ERROR && dlaunch_stop_trace() == DLAUNCH_OK);
  EXPECT(dlaunch_breakpoint(99, NULL) == DLAUNCH_ERROR);
}

int main(void) {
  errors();
  EXPECT(dlaunch_init_process_group(NULL) == DLAUNCH_OK);
  EXPECT(dlaunch_is_initialized() == 1);
  const int rank = dlaunch_get_rank(NULL);
  const int size = dlaunch_get_world_size(NULL);
  EXPECT(size >= 1 && size <= most_ranks);
  EXPECT(strcmp(dlaunch_get_backend(NULL), "gloo") == 0);
  wrong_arguments();
  shared_memory(size);
  collectives(rank, size);
  messages(rank, size);
  coalesced(rank, size);
  batch(rank, size);
  groups(rank, size);
  more_groups(rank, size);
  meshes(rank, size);
  surroundings();
  callbacks(rank);
  debugging(rank);
  where_an_error_was(rank);
  EXPECT(dlaunch_destroy_process_group() == DLAUNCH_OK);
  return 0;
}
