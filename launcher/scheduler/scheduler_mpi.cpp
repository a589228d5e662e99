// mpirun: Open MPI, MPICH's Hydra, MVAPICH's mpirun_rsh, and other launchers with PMI. Each of their
// processes is one dlaunch.
#include <utility>

#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/scheduler_allocation.h"

namespace dlaunch::launcher {
namespace {

struct MpiNames {
  const char* name;
  const char* size;
  const char* rank;
  const char* local_size;
  std::vector<const char*> job;  // the same for all processes of a run, and different for other runs
  std::string job_on_one_host;   // the same, if all are on one host; empty: unknown
};

AllocationResult mpi(const Variables& env, const MpiNames& names) {
  const auto size = env.integer({names.size});
  const auto rank = env.integer({names.rank});
  if (!size || !rank) return no_allocation();
  SchedulerAllocation allocation;
  allocation.name = names.name;
  allocation.nnodes = size;
  allocation.node_rank = rank;
  const auto all = *env.number({names.size});
  const auto here = env.number({names.local_size}).value_or(1);
  if (all == 1) return std::optional(std::move(allocation));

  auto job = env.text(names.job);
  if (!job && here == all && !names.job_on_one_host.empty())
    job = SchedulerAllocation::Value{names.job_on_one_host, names.name};
  if (job) {
    allocation.id = SchedulerAllocation::Value{"mpi-" + job->text, job->from};
    allocation.master_port = port_of(job->text, "", job->from);
  }
  if (here == all) {
    allocation.master_addr = SchedulerAllocation::Value{"127.0.0.1", names.local_size};
  } else {
    allocation.no_master = usage(allocation.name + " started " + size->text +
                                     " dlaunch, but does not say on which host the first one is",
                                 "", name_the_first_host);
  }
  if (here > 1) {
    allocation.warnings.push_back(allocation.name + " started " + std::to_string(here) +
                                  " dlaunch on this node, each counts as a node: use one per node, and "
                                  "--nproc-per-node for the workers");
  }
  return std::optional(std::move(allocation));
}

}  // namespace

AllocationResult open_mpi_allocation(const Variables& env) {
  return mpi(env, {"Open MPI's mpirun",
                   "OMPI_COMM_WORLD_SIZE",
                   "OMPI_COMM_WORLD_RANK",
                   "OMPI_COMM_WORLD_LOCAL_SIZE",
                   {"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_ess_base_jobid"},
                   ""});
}

// mpirun_rsh; MVAPICH comes with Hydra as well.
AllocationResult mvapich_allocation(const Variables& env) {
  return mpi(env, {"MVAPICH's mpirun_rsh",
                   "MV2_COMM_WORLD_SIZE",
                   "MV2_COMM_WORLD_RANK",
                   "MV2_COMM_WORLD_LOCAL_SIZE",
                   {},
                   ""});
}

AllocationResult pmi_allocation(const Variables& env, const SchedulerEnvironment& scheduler_env) {
  return mpi(env, {"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", {}, scheduler_env.mpi_run});
}

}  // namespace dlaunch::launcher
