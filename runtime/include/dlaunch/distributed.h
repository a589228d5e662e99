// The whole library: torch.distributed's calls with its names and meanings.
//
//   #include <dlaunch/distributed.h>
//
//   int main() {
//     dlaunch::init_process_group();
//     std::vector<float> sum(1000, static_cast<float>(dlaunch::get_rank()));
//     dlaunch::all_reduce(dlaunch::Tensor::of(sum));
//     dlaunch::destroy_process_group();
//   }
//
//   $ dlaunch --nproc-per-node=4 ./program
//
// All calls throw DistError (error.h) when they fail. Calls that take no group use the default group, which
// init_process_group makes. init_process_group, new_group and destroy_process_group take turns; the last must
// not run while another thread calls anything else. For the collectives see process_group.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlaunch/backend_name.h"
#include "dlaunch/error.h"
#include "dlaunch/export.h"
#include "dlaunch/process_group.h"
#include "dlaunch/reduce_op.h"
#include "dlaunch/shared_memory.h"
#include "dlaunch/store.h"
#include "dlaunch/tensor.h"
#include "dlaunch/work.h"

namespace dlaunch {
inline namespace v1 {

struct InitOptions {
  // "gloo", or one per device: "cpu:gloo,cuda:nccl"; or a BackendName. Case does not matter. Empty: that one
  // if this process can use a GPU, else "gloo".
  //
  // gloo connects over the network interface that reaches the master, or over all those that the environment
  // variable DLAUNCH_SOCKET_IFNAME, or else GLOO_SOCKET_IFNAME, names: "eth0,eth1", as many on every rank, in
  // the same order. Long messages are then split and sent over all of them at once.
  std::string backend;
  // How the ranks find each other. Empty: env://, or through `store` if there is one. With a store it must
  // be empty.
  //   env://            through the environment that dlaunch (and torchrun) give a worker: MASTER_ADDR and
  //                     MASTER_PORT, and RANK and WORLD_SIZE if the program gives none. Rank 0 serves the
  //                     store there unless TORCHELASTIC_USE_AGENT_STORE=True: then it is served already.
  //                     With the backend mpi a program that mpirun or mpiexec started needs none of them:
  //                     rank and world size are MPI's, and rank 0 serves the store at a free port.
  //   tcp://host:port   rank 0 serves the store there.
  //   file:///path      a file that all ranks see and that does not exist before. A file that a crashed run
  //                     has left is recognised and rejected.
  // Each may end with ?rank=R&world_size=N, which means the same as the two options below.
  std::string init_method = {};
  // For joining, and for each operation that has no timeout of its own.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // -1: not given. With a store, tcp:// and file:// both are needed, here or in the URL; values in both
  // places must be equal. With env:// they take precedence over RANK and WORLD_SIZE. A rank that is a thread,
  // or that spawn() started, has them already: other values are an error.
  int rank = -1;
  int world_size = -1;
  std::shared_ptr<KeyValueStore> store = {};
  std::string group_name = {};  // for messages, and for keeping apart worlds in one store. Empty: "default"
  // The CUDA device of this rank, for the backend nccl; no other is used then, and the ranks connect their
  // devices before the call returns. Absent: the device of the first tensor.
  std::optional<int> device_id = {};
};

// Makes the default group. Returns when all ranks have joined. If the timeout passes before, it throws an
// error that names the missing ranks; the caller may then call again. Ignores SIGPIPE from then on if the
// program has no handler for it: the loss of a peer must become an exception, and must not end the
// process.
DLAUNCH_EXPORT void init_process_group(const InitOptions& options = {});

// Ends the group after its operations have completed; without an argument: all groups, the default group
// last. Throws if there is no default group. It does not wait for calls of other ranks, only (a few seconds
// at most) until this rank's operations complete and its sent data arrive. Operations that have not completed
// by then end with an error, here and on the ranks that take part in them. Also works after errors and if the
// other ranks have ended.
//
// If a process ends without this call, by a return from main or exit(), the data of its completed operations
// still arrive (it waits two seconds at most), and it leaves its groups in order; running operations end with
// an error. _exit() and signals are like a crash: data sent just before may be lost, and the other ranks
// report that this rank has died.
DLAUNCH_EXPORT void destroy_process_group();
DLAUNCH_EXPORT void destroy_process_group(const ProcessGroup& group);

// Ends all operations of the group, on this rank with `reason` and on the others as if this rank had failed;
// without a group: of all groups. The groups are broken then, and can be destroyed. Does not block; any
// thread.
DLAUNCH_EXPORT void abort_process_group(const std::string& reason, const ProcessGroup& group = {});

DLAUNCH_EXPORT bool is_available();  // always true; exists for torch.distributed's sake
DLAUNCH_EXPORT bool is_initialized();
DLAUNCH_EXPORT ProcessGroup default_group();
// None: the default group. Rank and size are -1 if this process is not a member (ProcessGroup::size() is
// not).
DLAUNCH_EXPORT int get_rank(const ProcessGroup& group = {});
DLAUNCH_EXPORT int get_world_size(const ProcessGroup& group = {});
// These two also work if this process is not a member.
DLAUNCH_EXPORT std::string get_backend(const ProcessGroup& group = {});
// The same by device: "cpu:gloo,cuda:gloo".
DLAUNCH_EXPORT std::string get_backend_config(const ProcessGroup& group = {});
// "gloo" for "cpu", "nccl" for "cuda" and "cuda:1"; DistError for other devices.
DLAUNCH_EXPORT std::string get_default_backend_for_device(std::string_view device);
// This worker's number on its node, from the launcher (LOCAL_RANK; mpirun's; srun's). If it is not set:
// `fallback_rank`, or DistError without one.
DLAUNCH_EXPORT int get_node_local_rank(std::optional<int> fallback_rank = {});
DLAUNCH_EXPORT int get_pg_count();  // groups of this process, the default group too

struct NewGroupOptions {
  std::optional<std::chrono::milliseconds> timeout = {};  // absent: the default group's
  std::string backend = {};                               // empty: the default group's
  // Only the members call. Whatever other groups exist: the n-th call is the n-th group of these members.
  bool use_local_synchronization = false;
  std::string name = {};  // for messages
};

// A group of some ranks of the default group, numbered in their order there; no ranks: all. Every rank of the
// default group makes the same calls in the same order, also a rank that is not a member (its rank there is
// -1, and its collectives and messages do nothing: see ProcessGroup). The members wait for each other; with
// the backend nccl, if the default group's devices were named (device_id), all ranks do. If
// ranks give different lists or backends for one group, DistNetworkError shows both, at once and on all
// members; a rank that is not a member by its own list, or that did not have to wait, may have returned
// already. If an argument is wrong on one rank, that rank throws DistError, and the members throw
// DistNetworkError with its text; the call still counts on all ranks. A member that dies meanwhile is named
// within a second. With use_local_synchronization a caller that is not a member gets no group, and wrong
// ranks are not reported to other ranks.
DLAUNCH_EXPORT ProcessGroup new_group(const std::vector<int>& ranks = {},
                                      const NewGroupOptions& options = {});

// Groups of `group_size` neighbours each, which must divide the world size; returns this rank's group. In
// this and the next call all ranks of the default group compare their arguments first (not with
// use_local_synchronization): if one of them is wrong or differs, all ranks throw at once.
DLAUNCH_EXPORT ProcessGroup new_subgroups(int group_size, const NewGroupOptions& options = {});
// Makes groups of these ranks; returns this rank's group, or none. A rank may be in one of them at most.
DLAUNCH_EXPORT ProcessGroup new_subgroups_by_enumeration(std::span<const std::vector<int>> ranks,
                                                         const NewGroupOptions& options = {});
// Splits a group (none: the default group) into parts, given by their ranks in it; returns this rank's part,
// or none. The members of each part call it with the same ranks, and do not wait for other parts. Backend and
// timeout are the group's unless the options set others.
DLAUNCH_EXPORT ProcessGroup split_group(const ProcessGroup& group, std::span<const std::vector<int>> parts,
                                        const NewGroupOptions& options = {});

struct CollectiveOptions : OperationOptions {
  ProcessGroup group;                // none: the default group
  std::vector<int> device_ids = {};  // of barrier, for a backend of CUDA devices
};

struct PointToPointOptions : MessageOptions {
  ProcessGroup group;  // none: the default group
};

// ProcessGroup describes each call. Unlike there, and as in torch.distributed, `src`, `dst` and `peer` are
// ranks in the default group, whatever group is used: rank 5 of a job is rank 5 everywhere. A rank that is
// not a member of the group is a DistError. If this process is not a member of the group, nothing happens, as
// there: the Work has succeeded, recv returns -1.
DLAUNCH_EXPORT SharedMemory allocate_shared(std::size_t bytes, const ProcessGroup& group = {});
DLAUNCH_EXPORT Work all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum,
                               const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work broadcast(const Tensor& tensor, int src, const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work all_gather(std::span<const Tensor> outputs, const Tensor& input,
                               const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work all_gather_into_tensor(const Tensor& output, const Tensor& input,
                                           const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work barrier(const CollectiveOptions& options = {});
DLAUNCH_EXPORT void monitored_barrier(std::optional<std::chrono::milliseconds> timeout = {},
                                      bool wait_all_ranks = false, const ProcessGroup& group = {});
DLAUNCH_EXPORT Work reduce(const Tensor& tensor, int dst, ReduceOp op = ReduceOp::sum,
                           const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                           const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                            const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                                   ReduceOp op = ReduceOp::sum, const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                                          ReduceOp op = ReduceOp::sum, const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                               const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work all_to_all_single(const Tensor& output, const Tensor& input,
                                      std::span<const std::int64_t> output_splits = {},
                                      std::span<const std::int64_t> input_splits = {},
                                      const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work all_reduce_coalesced(std::span<const Tensor> tensors, ReduceOp op = ReduceOp::sum,
                                         const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work all_gather_into_tensor_coalesced(std::span<const Tensor> outputs,
                                                     std::span<const Tensor> inputs,
                                                     const CollectiveOptions& options = {});
DLAUNCH_EXPORT Work reduce_scatter_tensor_coalesced(std::span<const Tensor> outputs,
                                                    std::span<const Tensor> inputs,
                                                    ReduceOp op = ReduceOp::sum,
                                                    const CollectiveOptions& options = {});

DLAUNCH_EXPORT void send(const Tensor& tensor, int dst, const PointToPointOptions& options = {});
DLAUNCH_EXPORT int recv(const Tensor& tensor, int src = any_source, const PointToPointOptions& options = {});
DLAUNCH_EXPORT Work isend(const Tensor& tensor, int dst, const PointToPointOptions& options = {});
DLAUNCH_EXPORT Work irecv(const Tensor& tensor, int src = any_source,
                          const PointToPointOptions& options = {});
// `group`: for the operations that name none.
DLAUNCH_EXPORT std::vector<Work> batch_isend_irecv(std::span<const P2POp> ops, ProcessGroup group = {});

// Convert between a process's rank in `group` (none: the default group) and in the default group. DistError
// if that process is not a member; the caller need not be one.
DLAUNCH_EXPORT int get_group_rank(const ProcessGroup& group, int global_rank);
DLAUNCH_EXPORT int get_global_rank(const ProcessGroup& group, int group_rank);
// The members' ranks in the default group, by rank in `group`. None: the default group.
DLAUNCH_EXPORT std::vector<int> get_process_group_ranks(const ProcessGroup& group = {});

// Stops this rank for a debugger: it reports its process number and the command to attach, waits until one
// has attached, and stops there (SIGTRAP). All ranks of the group call it; the others wait until that rank
// continues, without a time limit, or until it has died. Operations that run meanwhile keep their deadlines.
// If that rank serves the store, attach when all ranks have called. `rank` is a rank in the default
// group.
DLAUNCH_EXPORT void breakpoint(int rank = 0, const ProcessGroup& group = {});

// Whether a module of this name is installed (backend.h) and reports that it works in this process.
DLAUNCH_EXPORT bool is_backend_available(std::string_view name);
DLAUNCH_EXPORT bool is_gloo_available();
DLAUNCH_EXPORT bool is_nccl_available();  // NCCL, CUDA's runtime, the driver and a device are there
DLAUNCH_EXPORT bool is_mpi_available();   // true only with a third party's module

DLAUNCH_EXPORT bool is_dlaunch_launched();       // started by dlaunch
DLAUNCH_EXPORT bool is_torchelastic_launched();  // started by dlaunch or torchrun

// The fencing token of this round: equal on all its workers, and higher than that of every earlier round of
// the job. Write it with a checkpoint, and do not replace a checkpoint with a higher token: a later round
// wrote that one. Below 2^53. 0: not started by dlaunch. Any thread.
DLAUNCH_EXPORT std::uint64_t fencing_token();

}  // namespace v1
}  // namespace dlaunch
