// Every environment variable a worker gets: the contract between agent and worker. Names only; the agent
// writes them (agent/model/worker_environment.cpp), the runtime reads them
// (runtime/rendezvous/bootstrap.cpp).
#pragma once

#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store::env {

// torchrun's variables, with its meanings.
inline constexpr std::string_view rank = "RANK";              // 0 .. WORLD_SIZE-1, over all nodes
inline constexpr std::string_view local_rank = "LOCAL_RANK";  // 0 .. LOCAL_WORLD_SIZE-1, on this node
inline constexpr std::string_view world_size = "WORLD_SIZE";  // workers in all
inline constexpr std::string_view local_world_size = "LOCAL_WORLD_SIZE";  // workers on this node
inline constexpr std::string_view group_rank = "GROUP_RANK";  // this node's number, 0 .. GROUP_WORLD_SIZE-1
inline constexpr std::string_view group_world_size = "GROUP_WORLD_SIZE";  // nodes
inline constexpr std::string_view role_name = "ROLE_NAME";                // --role
inline constexpr std::string_view role_rank = "ROLE_RANK";              // rank among the workers of this role
inline constexpr std::string_view role_world_size = "ROLE_WORLD_SIZE";  // workers of this role
inline constexpr std::string_view master_addr = "MASTER_ADDR";          // host of the store
inline constexpr std::string_view master_port = "MASTER_PORT";          // port of the store
inline constexpr std::string_view restart_count =
    "TORCHELASTIC_RESTART_COUNT";  // rounds before this one; equal on all nodes
inline constexpr std::string_view max_restarts = "TORCHELASTIC_MAX_RESTARTS";  // --max-restarts
inline constexpr std::string_view run_id = "TORCHELASTIC_RUN_ID";              // the job's id
inline constexpr std::string_view use_agent_store =
    "TORCHELASTIC_USE_AGENT_STORE";  // "True": the agent serves MASTER_ADDR:MASTER_PORT; "False": rank 0 does
inline constexpr std::string_view error_file =
    "TORCHELASTIC_ERROR_FILE";  // where a worker may write why it failed; empty: nowhere
inline constexpr std::string_view timer_file =
    "TORCHELASTIC_TIMER_FILE";  // the FIFO where its processes may set timers for themselves
inline constexpr std::string_view signals_to_handle =
    "TORCHELASTIC_SIGNALS_TO_HANDLE";  // --signals-to-handle: "SIGTERM,SIGINT"
inline constexpr std::string_view nccl_async_error_handling =
    "TORCH_NCCL_ASYNC_ERROR_HANDLING";  // "1" unless set
inline constexpr std::string_view omp_num_threads =
    "OMP_NUM_THREADS";  // if unset or "auto": a worker's share of the cores it is bound to; else, if auto, of
                        // the node's CPUs; else "1" if more than one worker
inline constexpr std::string_view cuda_visible_devices = "CUDA_VISIBLE_DEVICES";  // --virtual-local-rank: one
inline constexpr std::string_view hip_visible_devices =
    "HIP_VISIBLE_DEVICES";  // the same, if it was set for dlaunch

// PyTorch's Gloo: fewer round trips and bytes when many ranks connect. "1" unless set; equal on all ranks.
inline constexpr std::string_view gloo_store_v2 = "GLOO_ENABLE_STORE_V2_API";
inline constexpr std::string_view gloo_sequence_number = "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER";

// PyTorch's flight recorder. Unless one of its names is set: the operations that it keeps, whether it writes
// them to a file when one of them times out, and where: the path without the rank at its end. PyTorch before
// 2.8 knows only the older names; later ones warn of them.
inline constexpr std::string_view fr_buffer_size = "TORCH_FR_BUFFER_SIZE";
inline constexpr std::string_view fr_buffer_size_before = "TORCH_NCCL_TRACE_BUFFER_SIZE";
inline constexpr std::string_view fr_dump_on_timeout = "TORCH_FR_DUMP_ON_TIMEOUT";
inline constexpr std::string_view fr_dump_on_timeout_before = "TORCH_NCCL_DUMP_ON_TIMEOUT";
inline constexpr std::string_view fr_dump_file = "TORCH_FR_DUMP_TEMP_FILE";
inline constexpr std::string_view fr_dump_file_before = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
// The Unix socket at which a program that uses PyTorch's worker_main() answers questions. Unless set.
inline constexpr std::string_view worker_server_socket = "TORCH_WORKER_SERVER_SOCKET";

// Where Python looks for modules. With --accelerate the package of this dlaunch comes first, if it has one.
inline constexpr std::string_view python_path = "PYTHONPATH";

// dlaunch's own variables.
inline constexpr std::string_view accelerate = "DLAUNCH_ACCELERATE";  // --accelerate, for the package dlaunch
inline constexpr std::string_view version = "DLAUNCH_VERSION";  // presence: dlaunch started this process
inline constexpr std::string_view job_id = "DLAUNCH_JOB_ID";    // the job's id
inline constexpr std::string_view round =
    "DLAUNCH_ROUND";  // number of the world this worker belongs to, from 0
inline constexpr std::string_view fencing_token =
    "DLAUNCH_FENCING_TOKEN";  // of this world; higher than that of every world of the job before it
inline constexpr std::string_view worker_page =
    "DLAUNCH_WORKER_PAGE";  // the file of store/contract/worker_page.h; unset: there is none
inline constexpr std::string_view clock =
    "DLAUNCH_CLOCK";  // the job's clock (agent/model/shared_clock.h) minus this host's steady clock, and its
                      // error, in nanoseconds: "1764119000123456789,80000"; unset: it is not known

inline constexpr std::string_view torch_socket =
    "DLAUNCH_TORCH_SOCKET";  // the Unix socket at which the Python package answers for PyTorch's flight
                             // recorder (agent/model/flight_files.h); unset: it does not

// PMI-1, for programs that MPICH and its relatives are linked with (--mpi); unset: not offered.
inline constexpr std::string_view pmi_rank = "PMI_RANK";  // as RANK
inline constexpr std::string_view pmi_size = "PMI_SIZE";  // as WORLD_SIZE
inline constexpr std::string_view pmi_fd = "PMI_FD";      // a descriptor that the worker inherits

// The file with the key of a job with a secret, which libdlaunch proves to the job's store; unset: no secret.
inline constexpr std::string_view store_key_file = "DLAUNCH_STORE_KEY_FILE";

}  // namespace dlaunch::store::env
