/* The library in C, for C programs and for bindings. distributed.h and process_group.h describe the calls;
 * this header describes only their C form.
 *
 * 1. Every call that can fail returns an int: DLAUNCH_OK, or the kind of the error. dlaunch_last_error() then
 * returns the message, one line, of the calling thread's latest failure; valid until that thread's next call.
 * 2. Opaque types are handles. The caller that gets one through a `**` argument frees it with the _free
 * function of that type; freeing NULL is allowed. Freeing a group or work handle ends neither.
 * 3. A dlaunch_group* that is NULL means the default group. Ranks (src, dst, peer) are ranks in the default
 * group.
 * 4. A dlaunch_work** that is NULL makes the call wait for its operation; else it returns at once.
 * 5. Tensors are views of the caller's memory, and so is their shape: data must stay valid until the
 * operation has completed, the shape for the call only. Elements lie one after another, row by row.
 * 6. Timeouts are milliseconds; 0 means the group's. Truth values are int, 0 or 1.
 * 7. String arguments are UTF-8 with a 0 at the end. Returned strings belong to the library; the comment of
 * each call names how long they are valid.
 * 8. If this process is not a member of the group, collectives and messages do nothing and succeed.
 * 9. Any thread may call; see process_group.h for the order of calls from several threads. No exception
 * leaves a call.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "dlaunch/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): names as C has them */

enum dlaunch_status {
  DLAUNCH_OK = 0,
  DLAUNCH_ERROR = 1,         /* a wrong argument, a missing variable, no group */
  DLAUNCH_ERROR_BACKEND = 2, /* DistBackendError */
  DLAUNCH_ERROR_NETWORK = 3, /* DistNetworkError: another rank */
  DLAUNCH_ERROR_STORE = 4,   /* DistStoreError */
  DLAUNCH_ERROR_INTERNAL = 5 /* out of memory, or a mistake in the library */
};

/* The numbers of dtypes, reductions and devices never change; new ones come at the end. */
enum dlaunch_dtype {
  DLAUNCH_INT8,
  DLAUNCH_INT16,
  DLAUNCH_INT32,
  DLAUNCH_INT64,
  DLAUNCH_UINT8,
  DLAUNCH_BOOL,
  DLAUNCH_FLOAT16,
  DLAUNCH_BFLOAT16,
  DLAUNCH_FLOAT32,
  DLAUNCH_FLOAT64,
  DLAUNCH_COMPLEX64,
  DLAUNCH_COMPLEX128,
  DLAUNCH_FLOAT8_E4M3, /* float8_e4m3fn: see float8.h */
  DLAUNCH_FLOAT8_E5M2
};

enum dlaunch_reduce_op {
  DLAUNCH_SUM,
  DLAUNCH_AVG,
  DLAUNCH_PRODUCT,
  DLAUNCH_MIN,
  DLAUNCH_MAX,
  DLAUNCH_BAND,
  DLAUNCH_BOR,
  DLAUNCH_BXOR
};

enum dlaunch_debug_level { DLAUNCH_DEBUG_OFF, DLAUNCH_DEBUG_INFO, DLAUNCH_DEBUG_DETAIL };

enum dlaunch_log_level {
  DLAUNCH_LOG_ERROR,
  DLAUNCH_LOG_WARNING,
  DLAUNCH_LOG_INFO,
  DLAUNCH_LOG_DEBUG,
  DLAUNCH_LOG_TRACE
};

enum dlaunch_device { DLAUNCH_CPU, DLAUNCH_CUDA };

typedef struct dlaunch_group dlaunch_group;
typedef struct dlaunch_mesh dlaunch_mesh;
typedef struct dlaunch_store dlaunch_store;
typedef struct dlaunch_work dlaunch_work;

typedef struct dlaunch_tensor {
  void* data;           /* may be NULL if there are no elements */
  int dtype;            /* enum dlaunch_dtype */
  const int64_t* shape; /* `dims` extents; may be NULL if dims is 0: one element */
  size_t dims;
  int device; /* enum dlaunch_device */
  int device_index;
} dlaunch_tensor;

/* All zero: env://, gloo, 30 minutes. */
typedef struct dlaunch_init_options {
  const char* backend;     /* NULL: "gloo" */
  const char* init_method; /* NULL: "env://" */
  int64_t timeout_ms;
  /* With env:// they take precedence over RANK and WORLD_SIZE; tcp:// and file:// need them here or in the
   * URL. With a world_size of 0 neither is given. */
  int rank;
  int world_size;
  const char* group_name;     /* for messages, and to separate worlds in one store; NULL: "default" */
  const dlaunch_store* store; /* in place of an init_method; needs rank and world_size. NULL: none */
} dlaunch_init_options;

/* All zero: a client, any number of workers, 300 s. See TcpKeyValueStoreOptions in store.h. */
typedef struct dlaunch_tcp_store_options {
  int64_t timeout_ms; /* 0: 300 s */
  int world_size;     /* 0: none */
  int is_master;
  int do_not_wait_for_workers;
  int multi_tenant;
  const int* master_listen_fd; /* NULL: none */
} dlaunch_tcp_store_options;

/* All zero: the default group's (dlaunch_split_group: the parent's). */
typedef struct dlaunch_group_options {
  const char* backend;
  int64_t timeout_ms;
  int use_local_synchronization; /* only the members call */
  const char* name;              /* for messages */
} dlaunch_group_options;

/* The place of an error; unknown parts are -1, 0 or "". */
typedef struct dlaunch_error_context {
  int rank; /* of this process in the group */
  const char* operation;
  uint64_t sequence; /* of the operation in its group */
  const char* group;
  int peer; /* the rank on the other side, and its host */
  const char* host;
} dlaunch_error_context;

DLAUNCH_EXPORT const char* dlaunch_last_error(void);
/* The place of that error; valid as long as the message. */
DLAUNCH_EXPORT void dlaunch_last_error_context(dlaunch_error_context* context);

DLAUNCH_EXPORT int dlaunch_init_process_group(const dlaunch_init_options* options); /* NULL: all zero */
DLAUNCH_EXPORT int dlaunch_destroy_process_group(void);
DLAUNCH_EXPORT int dlaunch_is_initialized(void); /* 0 or 1 */
DLAUNCH_EXPORT int dlaunch_is_backend_available(const char* name);
DLAUNCH_EXPORT int dlaunch_is_gloo_available(void);
DLAUNCH_EXPORT int dlaunch_is_nccl_available(void);
DLAUNCH_EXPORT int dlaunch_is_mpi_available(void);
/* Whether dlaunch, or one of dlaunch and torchrun, started this process. */
DLAUNCH_EXPORT int dlaunch_is_dlaunch_launched(void);
DLAUNCH_EXPORT int dlaunch_is_torchelastic_launched(void);
/* Of this round: equal on all its workers, and higher than that of every earlier round of the job; below
 * 2^53. 0: not started by dlaunch. UINT64_MAX: DLAUNCH_FENCING_TOKEN is not a number; dlaunch_last_error()
 * shows it. */
DLAUNCH_EXPORT uint64_t dlaunch_fencing_token(void);
/* "gloo" for "cpu"; valid until the thread's next call; NULL if there is none. */
DLAUNCH_EXPORT const char* dlaunch_get_default_backend_for_device(const char* device);

/* -1 if this process is not a member, or there is no group. */
DLAUNCH_EXPORT int dlaunch_get_rank(const dlaunch_group* group);
DLAUNCH_EXPORT int dlaunch_get_world_size(const dlaunch_group* group);
/* Convert between a process's rank in the group and in the default group; -1 if it is not a member. */
DLAUNCH_EXPORT int dlaunch_get_group_rank(const dlaunch_group* group, int global_rank);
DLAUNCH_EXPORT int dlaunch_get_global_rank(const dlaunch_group* group, int group_rank);
/* This worker's number on its node; -1 if no launcher has set it. */
DLAUNCH_EXPORT int dlaunch_get_node_local_rank(void);
/* Valid until the thread's next call; NULL if there is no group. */
DLAUNCH_EXPORT const char* dlaunch_get_backend(const dlaunch_group* group);
DLAUNCH_EXPORT const char* dlaunch_get_backend_config(const dlaunch_group* group); /* "cpu:gloo,cuda:gloo" */
DLAUNCH_EXPORT int dlaunch_get_pg_count(void); /* groups of this process, the default group too */
/* The members' ranks in the default group. count: the group's size. */
DLAUNCH_EXPORT int dlaunch_get_process_group_ranks(const dlaunch_group* group, int* ranks, size_t count);

/* If this process gets none of the groups, *group becomes NULL. (As an argument NULL means the default group:
 * check before you use it.) count 0: all ranks; options NULL: all zero. */
DLAUNCH_EXPORT int dlaunch_new_group(const int* ranks, size_t count, int64_t timeout_ms,
                                     dlaunch_group** group);
DLAUNCH_EXPORT int dlaunch_new_group_with(const int* ranks, size_t count,
                                          const dlaunch_group_options* options, dlaunch_group** group);
DLAUNCH_EXPORT int dlaunch_new_subgroups(int group_size, const dlaunch_group_options* options,
                                         dlaunch_group** group);
/* `count` lists of ranks, one after another in `ranks`, of these sizes. */
DLAUNCH_EXPORT int dlaunch_new_subgroups_by_enumeration(const int* ranks, const size_t* sizes, size_t count,
                                                        const dlaunch_group_options* options,
                                                        dlaunch_group** group);
/* Ranks in the parent here. */
DLAUNCH_EXPORT int dlaunch_split_group(const dlaunch_group* parent, const int* ranks, const size_t* sizes,
                                       size_t count, const dlaunch_group_options* options,
                                       dlaunch_group** group);
/* A group beside the default group, which need not exist: for a binding whose program makes its own groups.
 * Ranks in calls and messages are those of `ranks`. Returns when all members have called it with the same
 * store; fails as dlaunch_init_process_group. dlaunch_destroy_group ends it. It may be made again with the
 * same store. */
typedef struct dlaunch_separate_group_options {
  const dlaunch_store* store;
  int rank; /* of this process in the group */
  int world_size;
  const int* ranks;    /* the members' ranks in the job, by rank; NULL: 0 to world_size - 1, the whole job */
  const char* backend; /* NULL: "gloo" */
  int64_t timeout_ms;  /* for joining, and the group's; 0: 30 minutes */
  const char* name;    /* for messages; NULL: "default" */
} dlaunch_separate_group_options;
DLAUNCH_EXPORT int dlaunch_make_separate_group(const dlaunch_separate_group_options* options,
                                               dlaunch_group** group);
DLAUNCH_EXPORT void dlaunch_group_free(dlaunch_group* group);
/* Ends the group on this rank; the handle must still be freed. */
DLAUNCH_EXPORT int dlaunch_destroy_group(dlaunch_group* group);
/* For the operations that are called from now on. */
DLAUNCH_EXPORT int dlaunch_set_timeout(const dlaunch_group* group, int64_t timeout_ms);
DLAUNCH_EXPORT int dlaunch_abort(const dlaunch_group* group, const char* reason);

/* Stores: see store.h. A store may be freed while a group or a part of it uses it. Here timeout_ms 0 means
 * the store's own timeout; when a store is made, 300 s. Values are bytes; returned ones are followed by a 0
 * that does not count, and are valid until the thread's next call. */
DLAUNCH_EXPORT int dlaunch_make_tcp_store(const char* host, uint16_t port,
                                          const dlaunch_tcp_store_options* options, dlaunch_store** store);
DLAUNCH_EXPORT int dlaunch_make_file_store(const char* path, int world_size, int64_t timeout_ms,
                                           dlaunch_store** store); /* world_size -1: the file stays */
DLAUNCH_EXPORT int dlaunch_make_hash_store(int64_t timeout_ms, dlaunch_store** store);
DLAUNCH_EXPORT int dlaunch_make_prefix_store(const char* prefix, const dlaunch_store* store,
                                             dlaunch_store** part);
/* A store of the program: see KeyValueStore in store.h for what each call does. Any thread calls them. All
 * return 0, or another number if they have failed, with the reason given to `reply`; wait_for returns 1 if
 * all keys exist, 0 if they do not, and -1 if it has failed. Values of get and compare_set are given to
 * `reply`. The context must live until `release` (may be NULL) is called with it. */
typedef struct dlaunch_reply dlaunch_reply;
typedef struct dlaunch_store_calls {
  int (*set)(void* context, const char* key, const void* value, size_t size, dlaunch_reply* reply);
  int (*get)(void* context, const char* key, dlaunch_reply* reply);
  int (*add)(void* context, const char* key, int64_t amount, int64_t* sum, dlaunch_reply* reply);
  int (*compare_set)(void* context, const char* key, const void* expected, size_t expected_size,
                     const void* desired, size_t desired_size, dlaunch_reply* reply);
  int (*wait_for)(void* context, const char* const* keys, size_t count, int64_t timeout_ms,
                  dlaunch_reply* reply);
  int (*delete_key)(void* context, const char* key, int* existed, dlaunch_reply* reply);
  void (*release)(void* context);
} dlaunch_store_calls;
/* Copies the bytes: a value, or the text of an error. */
DLAUNCH_EXPORT void dlaunch_give_reply(dlaunch_reply* reply, const void* bytes, size_t size);
DLAUNCH_EXPORT int dlaunch_make_program_store(const dlaunch_store_calls* calls, void* context,
                                              dlaunch_store** store);
DLAUNCH_EXPORT void dlaunch_store_free(dlaunch_store* store);
DLAUNCH_EXPORT int dlaunch_store_set(const dlaunch_store* store, const char* key, const void* value,
                                     size_t size);
DLAUNCH_EXPORT int dlaunch_store_get(const dlaunch_store* store, const char* key, const char** value,
                                     size_t* size);
DLAUNCH_EXPORT int dlaunch_store_add(const dlaunch_store* store, const char* key, int64_t amount,
                                     int64_t* sum);
DLAUNCH_EXPORT int dlaunch_store_compare_set(const dlaunch_store* store, const char* key,
                                             const void* expected, size_t expected_size, const void* desired,
                                             size_t desired_size, const char** value, size_t* size);
/* If keys are still missing after the timeout, wait fails (DLAUNCH_ERROR_STORE), and wait_for succeeds with
 * *exist = 0. For wait_for a timeout of 0 only checks. */
DLAUNCH_EXPORT int dlaunch_store_wait(const dlaunch_store* store, const char* const* keys, size_t count,
                                      int64_t timeout_ms);
DLAUNCH_EXPORT int dlaunch_store_wait_for(const dlaunch_store* store, const char* const* keys, size_t count,
                                          int64_t timeout_ms, int* exist);
DLAUNCH_EXPORT int dlaunch_store_check(const dlaunch_store* store, const char* const* keys, size_t count,
                                       int* exist);
DLAUNCH_EXPORT int dlaunch_store_delete_key(const dlaunch_store* store, const char* key, int* existed);
DLAUNCH_EXPORT int dlaunch_store_num_keys(const dlaunch_store* store, int64_t* number);
/* The list and its texts are valid until the thread's next call. */
DLAUNCH_EXPORT int dlaunch_store_list_keys(const dlaunch_store* store, const char* const** keys,
                                           size_t* count);
DLAUNCH_EXPORT int dlaunch_store_append(const dlaunch_store* store, const char* key, const void* value,
                                        size_t size);
/* values, sizes: a place for each key. */
DLAUNCH_EXPORT int dlaunch_store_multi_get(const dlaunch_store* store, const char* const* keys, size_t count,
                                           const char** values, size_t* sizes);
DLAUNCH_EXPORT int dlaunch_store_multi_set(const dlaunch_store* store, const char* const* keys, size_t count,
                                           const void* const* values, const size_t* sizes);
DLAUNCH_EXPORT int dlaunch_store_queue_push(const dlaunch_store* store, const char* key, const void* value,
                                            size_t size);
/* *value becomes NULL if the queue is empty and `block` is 0. */
DLAUNCH_EXPORT int dlaunch_store_queue_pop(const dlaunch_store* store, const char* key, int block,
                                           const char** value, size_t* size);
DLAUNCH_EXPORT int dlaunch_store_queue_len(const dlaunch_store* store, const char* key, int64_t* length);
DLAUNCH_EXPORT int dlaunch_store_barrier(const dlaunch_store* store, const char* key, int64_t world_size);
/* Here 0 means 0: calls only check for keys. */
DLAUNCH_EXPORT int dlaunch_store_set_timeout(const dlaunch_store* store, int64_t timeout_ms);
DLAUNCH_EXPORT int64_t dlaunch_store_timeout(const dlaunch_store* store); /* -1: there is no store */
/* For a TCP store; other stores return NULL, -1 and 0. */
DLAUNCH_EXPORT const char* dlaunch_store_host(const dlaunch_store* store);
DLAUNCH_EXPORT int dlaunch_store_port(const dlaunch_store* store);
DLAUNCH_EXPORT int dlaunch_store_is_serving(const dlaunch_store* store);

/* Meshes: see device_mesh.h. names: NULL, or one for each dimension. */
DLAUNCH_EXPORT int dlaunch_init_device_mesh(const char* device_type, const int* shape, size_t dims,
                                            const char* const* names, dlaunch_mesh** mesh);
/* Of these ranks, row by row, one for each place. */
DLAUNCH_EXPORT int dlaunch_device_mesh(const char* device_type, const int* ranks, const int* shape,
                                       size_t dims, const char* const* names, dlaunch_mesh** mesh);
DLAUNCH_EXPORT void dlaunch_mesh_free(dlaunch_mesh* mesh);
/* -1: no such dimension, or this rank is not in the mesh. */
DLAUNCH_EXPORT int dlaunch_mesh_ndim(const dlaunch_mesh* mesh);
DLAUNCH_EXPORT int dlaunch_mesh_size(const dlaunch_mesh* mesh, int dim);
DLAUNCH_EXPORT int dlaunch_mesh_dim(const dlaunch_mesh* mesh, const char* name); /* its number */
DLAUNCH_EXPORT int dlaunch_mesh_get_local_rank(const dlaunch_mesh* mesh, int dim);
DLAUNCH_EXPORT int dlaunch_mesh_get_group(const dlaunch_mesh* mesh, int dim, dlaunch_group** group);
DLAUNCH_EXPORT int dlaunch_mesh_slice(const dlaunch_mesh* mesh, const char* const* names, size_t count,
                                      dlaunch_mesh** part);
/* name NULL: the names joined by "_". */
DLAUNCH_EXPORT int dlaunch_mesh_flatten(const dlaunch_mesh* mesh, const char* name, dlaunch_mesh** flat);

/* Memory that the ranks of this host read in place; see shared_memory.h. *data is NULL if bytes is 0.
 * is_shared may be NULL. */
DLAUNCH_EXPORT int dlaunch_allocate_shared(size_t bytes, const dlaunch_group* group, void** data,
                                           int* is_shared);
DLAUNCH_EXPORT int dlaunch_free_shared(void* data); /* NULL: nothing */
DLAUNCH_EXPORT int dlaunch_all_reduce(const dlaunch_tensor* tensor, int op, const dlaunch_group* group,
                                      int64_t timeout_ms, dlaunch_work** work);
/* Each rank's values times its factor, then the sum. */
DLAUNCH_EXPORT int dlaunch_all_reduce_premul_sum(const dlaunch_tensor* tensor, double factor,
                                                 const dlaunch_group* group, int64_t timeout_ms,
                                                 dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_all_reduce_coalesced(const dlaunch_tensor* tensors, size_t count, int op,
                                                const dlaunch_group* group, int64_t timeout_ms,
                                                dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_broadcast(const dlaunch_tensor* tensor, int src, const dlaunch_group* group,
                                     int64_t timeout_ms, dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_reduce(const dlaunch_tensor* tensor, int dst, int op, const dlaunch_group* group,
                                  int64_t timeout_ms, dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_reduce_premul_sum(const dlaunch_tensor* tensor, int dst, double factor,
                                             const dlaunch_group* group, int64_t timeout_ms,
                                             dlaunch_work** work);
/* Lists: one tensor for each rank of the group; for gather at dst only, for scatter at src only (else NULL,
 * 0). */
DLAUNCH_EXPORT int dlaunch_all_gather(const dlaunch_tensor* outputs, size_t count,
                                      const dlaunch_tensor* input, const dlaunch_group* group,
                                      int64_t timeout_ms, dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_all_gather_into_tensor(const dlaunch_tensor* output, const dlaunch_tensor* input,
                                                  const dlaunch_group* group, int64_t timeout_ms,
                                                  dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_gather(const dlaunch_tensor* outputs, size_t count, const dlaunch_tensor* input,
                                  int dst, const dlaunch_group* group, int64_t timeout_ms,
                                  dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_scatter(const dlaunch_tensor* output, const dlaunch_tensor* inputs, size_t count,
                                   int src, const dlaunch_group* group, int64_t timeout_ms,
                                   dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_reduce_scatter(const dlaunch_tensor* output, const dlaunch_tensor* inputs,
                                          size_t count, int op, const dlaunch_group* group,
                                          int64_t timeout_ms, dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_reduce_scatter_tensor(const dlaunch_tensor* output, const dlaunch_tensor* input,
                                                 int op, const dlaunch_group* group, int64_t timeout_ms,
                                                 dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_reduce_scatter_premul_sum(const dlaunch_tensor* output,
                                                     const dlaunch_tensor* inputs, size_t count,
                                                     double factor, const dlaunch_group* group,
                                                     int64_t timeout_ms, dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_reduce_scatter_tensor_premul_sum(const dlaunch_tensor* output,
                                                            const dlaunch_tensor* input, double factor,
                                                            const dlaunch_group* group, int64_t timeout_ms,
                                                            dlaunch_work** work);
/* As many calls in one: `count` outputs and inputs, all of one type. */
DLAUNCH_EXPORT int dlaunch_all_gather_into_tensor_coalesced(const dlaunch_tensor* outputs,
                                                            const dlaunch_tensor* inputs, size_t count,
                                                            const dlaunch_group* group, int64_t timeout_ms,
                                                            dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_reduce_scatter_tensor_coalesced(const dlaunch_tensor* outputs,
                                                           const dlaunch_tensor* inputs, size_t count, int op,
                                                           const dlaunch_group* group, int64_t timeout_ms,
                                                           dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_all_to_all(const dlaunch_tensor* outputs, const dlaunch_tensor* inputs,
                                      size_t count, const dlaunch_group* group, int64_t timeout_ms,
                                      dlaunch_work** work);
/* Splits: one for each rank of the group, or NULL for equal parts. */
DLAUNCH_EXPORT int dlaunch_all_to_all_single(const dlaunch_tensor* output, const dlaunch_tensor* input,
                                             const int64_t* output_splits, const int64_t* input_splits,
                                             const dlaunch_group* group, int64_t timeout_ms,
                                             dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_barrier(const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work);
DLAUNCH_EXPORT int dlaunch_monitored_barrier(const dlaunch_group* group, int64_t timeout_ms,
                                             int wait_all_ranks);

#define DLAUNCH_ANY_SOURCE (-1)
DLAUNCH_EXPORT int dlaunch_send(const dlaunch_tensor* tensor, int dst, uint32_t tag,
                                const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work);
/* `source` (may be NULL): the sender's rank, if the call waits. */
DLAUNCH_EXPORT int dlaunch_recv(const dlaunch_tensor* tensor, int src, uint32_t tag,
                                const dlaunch_group* group, int64_t timeout_ms, int* source,
                                dlaunch_work** work);

enum dlaunch_p2p_kind { DLAUNCH_ISEND, DLAUNCH_IRECV };
typedef struct dlaunch_p2p_op {
  int kind; /* enum dlaunch_p2p_kind */
  dlaunch_tensor tensor;
  int peer; /* of a receive: may be DLAUNCH_ANY_SOURCE */
  uint32_t tag;
} dlaunch_p2p_op;
/* Starts all of them, or none if one is wrong. works: one element for each. */
DLAUNCH_EXPORT int dlaunch_batch_isend_irecv(const dlaunch_p2p_op* ops, size_t count,
                                             const dlaunch_group* group, dlaunch_work** works);

/* timeout_ms 0: no limit but the operation's own. A passed timeout is DLAUNCH_ERROR; the operation goes
 * on. */
DLAUNCH_EXPORT int dlaunch_work_wait(const dlaunch_work* work, int64_t timeout_ms);
DLAUNCH_EXPORT int dlaunch_work_is_completed(const dlaunch_work* work);
DLAUNCH_EXPORT int dlaunch_work_is_success(const dlaunch_work* work);
/* Of a receive that has succeeded: the sender's rank; else -1. */
DLAUNCH_EXPORT int dlaunch_work_source_rank(const dlaunch_work* work);
DLAUNCH_EXPORT void dlaunch_work_free(dlaunch_work* work);

/* A queue of operations that have ended, for a binding whose language has a lock: the thread that ends an
 * operation does not wait for that lock, the thread that calls dlaunch_completions_next does. */
typedef struct dlaunch_completions dlaunch_completions;
DLAUNCH_EXPORT int dlaunch_completions_make(dlaunch_completions** queue);
/* No thread may be in dlaunch_completions_next; operations that have not ended may still name the queue. */
DLAUNCH_EXPORT void dlaunch_completions_free(dlaunch_completions* queue);
/* `token` is put into the queue once: when the operation ends, or at once if it has. */
DLAUNCH_EXPORT int dlaunch_work_notify(const dlaunch_work* work, dlaunch_completions* queue, uint64_t token);
/* Waits for the first token, then returns all that are there, `capacity` at most; timeout_ms 0: no limit.
 * *count 0: the time has passed. */
DLAUNCH_EXPORT int dlaunch_completions_next(dlaunch_completions* queue, int64_t timeout_ms, uint64_t* tokens,
                                            size_t capacity, size_t* count);

/* Where the program calls operations, for what dlaunch reports of this rank: notes of a hang, dlaunch dump,
 * the page of the job. A line of the program gets a number once, from dlaunch_add_call_site: 0 if nothing is
 * recorded (no dlaunch has started this process, or it is in no group yet) or DLAUNCH_CALL_SITES is 0. The
 * latest 256 lines are kept. Each thread has a variable for the number of the line at which it calls
 * operations from then on; 0: not known. It is the thread's own, and lives as long. Neither call fails. */
DLAUNCH_EXPORT uint32_t dlaunch_add_call_site(const char* file, uint32_t line, const char* function);
DLAUNCH_EXPORT uint32_t* dlaunch_thread_call_site(void);

/* Debugging and profiling: see debug.h and profiling.h. */
DLAUNCH_EXPORT int dlaunch_breakpoint(int rank, const dlaunch_group* group);
DLAUNCH_EXPORT int dlaunch_get_debug_level(void); /* enum dlaunch_debug_level */
DLAUNCH_EXPORT int dlaunch_set_debug_level(int level);
DLAUNCH_EXPORT int dlaunch_start_trace(const char* path);
DLAUNCH_EXPORT int dlaunch_stop_trace(void);

enum dlaunch_profiling_kind { DLAUNCH_BEGIN, DLAUNCH_END };
/* As ProfilingEvent; valid during the call. */
typedef struct dlaunch_profiling_event {
  int kind; /* enum dlaunch_profiling_kind */
  uint64_t id;
  const char* name;
  const char* group;
  int rank;
  uint64_t sequence;
  uint64_t bytes;
  int64_t time_ns;
  int success; /* DLAUNCH_END only */
} dlaunch_profiling_event;
/* Any thread calls both, with `context`. NULL: no callback; log messages go to stderr then. Do not set them
 * while operations run. */
typedef void (*dlaunch_profiling_callback)(const dlaunch_profiling_event* event, void* context);
DLAUNCH_EXPORT int dlaunch_set_profiling_callback(dlaunch_profiling_callback callback, void* context);
typedef void (*dlaunch_log_handler)(int level, const char* message,
                                    void* context); /* enum dlaunch_log_level */
DLAUNCH_EXPORT int dlaunch_set_log_handler(dlaunch_log_handler handler, void* context);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
