// mpirun: Open MPI's, MPICH's Hydra, and what else speaks PMI. Each process of theirs is one dlaunch.
#include <utility>

#include "launcher/flags/values.h"
#include "launcher/scheduler/scheduler_claim.h"

namespace dlaunch::launcher {
namespace {

struct MpiNames {
  const char* who;
  const char* size;
  const char* rank;
  const char* local_size;
  std::vector<const char*> job;  // what all of one run have alike and no other run has
  std::string job_on_one_host;   // the same, where all are on one; empty: not known
};

Claimed mpi(const Variables& env, const MpiNames& names) {
  const auto size = env.integer({names.size});
  const auto rank = env.integer({names.rank});
  if (!size || !rank) return no_claim();
  SchedulerClaim claim;
  claim.who = names.who;
  claim.nnodes = size;
  claim.node_rank = rank;
  const auto all = *env.number({names.size});
  const auto here = env.number({names.local_size}).value_or(1);
  if (all == 1) return std::optional(std::move(claim));

  auto job = env.text(names.job);
  if (!job && here == all && !names.job_on_one_host.empty())
    job = SchedulerClaim::Value{names.job_on_one_host, names.who};
  if (job) {
    claim.id = SchedulerClaim::Value{"mpi-" + job->text, job->from};
    claim.master_port = port_of(job->text, "", job->from);
  }
  if (here == all) {
    claim.master_addr = SchedulerClaim::Value{"127.0.0.1", names.local_size};
  } else {
    claim.no_master = usage(
        claim.who + " started " + size->text + " dlaunch, but does not say on which host the first one is",
        "", name_the_first_host);
  }
  if (here > 1) {
    claim.warnings.push_back(claim.who + " started " + std::to_string(here) +
                             " dlaunch on this node, each counts as a node: use one per node, and "
                             "--nproc-per-node for the workers");
  }
  return std::optional(std::move(claim));
}

}  // namespace

Claimed open_mpi_claim(const Variables& env) {
  return mpi(env, {"Open MPI's mpirun",
                   "OMPI_COMM_WORLD_SIZE",
                   "OMPI_COMM_WORLD_RANK",
                   "OMPI_COMM_WORLD_LOCAL_SIZE",
                   {"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_ess_base_jobid"},
                   ""});
}

Claimed pmi_claim(const Variables& env, const Surroundings& around) {
  return mpi(env, {"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", {}, around.mpi_run});
}

}  // namespace dlaunch::launcher
