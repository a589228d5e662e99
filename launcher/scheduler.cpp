#include "launcher/scheduler.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "launcher/host_list.h"
#include "launcher/job_port.h"
#include "launcher/values.h"

namespace dlaunch::launcher {
namespace {

// What a scheduler knows. Each value comes with the variable it stands in.
struct Claim {
  struct Value {
    std::string text;
    std::string from;
  };
  std::string who;
  std::optional<Value> nnodes;
  std::optional<Value> node_rank;
  std::optional<Value> master_addr;
  std::optional<Value> master_port;
  std::optional<Value> id;
  std::optional<Error> no_master;  // why the first host is not known, where one is needed
  std::vector<std::string> warnings;
};

using Value = Claim::Value;

class Variables {
 public:
  explicit Variables(const EnvironmentMap& map) : map_(map) {}

  // The first of `names` that is set and not empty.
  [[nodiscard]] std::optional<Value> text(const std::vector<const char*>& names) const {
    for (const char* name : names) {
      const auto found = map_.find(name);
      if (found != map_.end() && !found->second.empty()) return Value{found->second, name};
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<Value> integer(const std::vector<const char*>& names) const {
    auto value = text(names);
    return value && as_number(value->text) ? value : std::nullopt;
  }
  [[nodiscard]] std::optional<std::uint64_t> number(const std::vector<const char*>& names) const {
    const auto value = text(names);
    return value ? as_number(value->text) : std::nullopt;
  }
  [[nodiscard]] bool has(const char* name) const { return text({name}).has_value(); }

 private:
  static std::optional<std::uint64_t> as_number(const std::string& text) {
    std::uint64_t n = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return n;
  }
  const EnvironmentMap& map_;
};

constexpr const char* name_it = "name the first host with --rdzv-endpoint=HOST:PORT";

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

// --- Slurm ---

void take_first_host(const Variables& env, Claim& claim) {
  const auto list = env.text({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!list) {
    claim.no_master =
        usage(claim.who + " does not say which nodes it has", "SLURM_STEP_NODELIST is not set", name_it);
    return;
  }
  auto hosts = expand_hosts(list->text);
  if (hosts) {
    claim.master_addr = Value{hosts->front(), list->from};
  } else {
    claim.no_master = std::move(hosts).error().with_where("in " + list->from).with_hint(name_it);
  }
}

Result<std::optional<Claim>> slurm(const Variables& env, bool nnodes_given) {
  const auto job = env.text({"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return std::optional<Claim>();
  const bool in_step = env.has("SLURM_STEP_ID") && env.has("SLURM_NODEID");
  const auto job_nodes = env.number({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}).value_or(1);
  if (!in_step) {
    if (job_nodes > 1 && !nnodes_given) {
      return usage("Slurm job " + job->text + " has " + std::to_string(job_nodes) +
                       " nodes, but dlaunch was started on one of them only",
                   "",
                   "start it with srun --ntasks-per-node=1 dlaunch ..., or say --nnodes=1 if one is meant");
    }
    return std::optional<Claim>();
  }

  const std::string step = env.text({"SLURM_STEP_ID"})->text;
  Claim claim;
  claim.who = "Slurm step " + job->text + "." + step;
  const auto tasks = env.number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}).value_or(1);
  const auto nodes = env.number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}).value_or(1);
  if (tasks > nodes && !nnodes_given) {
    if (env.number({"SLURM_LOCALID"}).value_or(0) > 0) {
      return usage(claim.who + " started dlaunch several times on this node", "",
                   "dlaunch starts the workers itself: use srun --ntasks-per-node=1, and --nproc-per-node");
    }
    claim.warnings.push_back(claim.who + " has " + std::to_string(tasks) + " tasks on " +
                             std::to_string(nodes) +
                             " nodes: only the first on each node starts workers; use srun "
                             "--ntasks-per-node=1, and --nproc-per-node for the workers");
  }
  claim.nnodes = env.integer({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  claim.node_rank = env.integer({"SLURM_NODEID"});
  claim.id = Value{"slurm-" + job->text + "." + step, "SLURM_JOB_ID"};
  if (nodes > 1) {
    take_first_host(env, claim);
    claim.master_port =
        Value{std::to_string(port_for(hash_of(job->text) * 31 + hash_of(step) % 1000)), "SLURM_JOB_ID"};
  }
  return std::optional<Claim>(std::move(claim));
}

// --- mpirun: Open MPI and MPICH's Hydra ---

struct MpiNames {
  const char* who;
  const char* size;
  const char* rank;
  const char* local_size;
  std::vector<const char*> job;  // what all of one run have alike and no other run has
};

std::optional<Claim> mpi(const Variables& env, const MpiNames& names) {
  const auto size = env.integer({names.size});
  const auto rank = env.integer({names.rank});
  if (!size || !rank) return std::nullopt;
  Claim claim;
  claim.who = names.who;
  claim.nnodes = size;
  claim.node_rank = rank;
  const auto all = *env.number({names.size});
  const auto here = env.number({names.local_size}).value_or(1);
  if (all == 1) return claim;

  const auto job = env.text(names.job);
  if (job) {
    claim.id = Value{"mpi-" + job->text, job->from};
    claim.master_port = Value{std::to_string(port_for(hash_of(job->text) * 31)), job->from};
  }
  if (here == all) {
    claim.master_addr = Value{"127.0.0.1", names.local_size};
  } else {
    claim.no_master = usage(
        claim.who + " started " + size->text + " dlaunch, but does not say on which host the first one is",
        "", name_it);
  }
  if (here > 1) {
    claim.warnings.push_back(claim.who + " started " + std::to_string(here) +
                             " dlaunch on this node, each counts as a node: use one per node, and "
                             "--nproc-per-node for the workers");
  }
  return claim;
}

// --- Kubernetes ---

bool is_loopback(const std::string& host) { return host == "localhost" || host.starts_with("127."); }

// The operators before Kubeflow's Training v1.7; newer ones set PET_*, which are flags like others.
std::optional<Claim> pytorch_job(const Variables& env, const Surroundings& around) {
  const auto world = env.integer({"WORLD_SIZE"});
  const auto rank = env.integer({"RANK"});
  const auto addr = env.text({"MASTER_ADDR"});
  if (!env.has("KUBERNETES_SERVICE_HOST") || env.has("PET_NNODES") || !world || !rank || !addr)
    return std::nullopt;
  Claim claim;
  claim.who = "Kubernetes PyTorchJob";
  claim.nnodes = world;
  claim.node_rank = rank;
  claim.master_addr = addr;
  claim.master_port = env.integer({"MASTER_PORT"});
  // The master's own pod is told "localhost", which the others could not use; its service has its pod's name.
  if (is_loopback(addr->text) && world->text != "1") claim.master_addr = Value{around.host, "the pod's name"};
  return claim;
}

// "10.1.2.3  train-1.workers.default.svc.cluster.local  train-1" -> the first name, for "train-1".
std::string full_name(const std::string& hosts_file, const std::string& host) {
  std::size_t at = 0;
  while (at < hosts_file.size()) {
    const std::size_t end = std::min(hosts_file.find('\n', at), hosts_file.size());
    std::vector<std::string> words;
    for (std::size_t i = at; i < end && hosts_file[i] != '#'; ++i) {
      const bool blank = std::isspace(static_cast<unsigned char>(hosts_file[i])) != 0;
      const bool begins = i == at || std::isspace(static_cast<unsigned char>(hosts_file[i - 1])) != 0;
      if (!blank && begins) words.emplace_back();
      if (!blank) words.back().push_back(hosts_file[i]);
    }
    if (words.size() > 1 && std::find(words.begin() + 1, words.end(), host) != words.end()) return words[1];
    at = end + 1;
  }
  return host;
}

// An Indexed Job knows its index, but not how many there are; its pods have names of each other only with a
// subdomain (a headless service).
std::optional<Claim> indexed_job(const Variables& env, const Surroundings& around, const Settings& given) {
  const auto index = env.integer({"JOB_COMPLETION_INDEX"});
  const Setting* nnodes = find(given, "nnodes");
  if (!index || !nnodes || nnodes->value == "1") return std::nullopt;
  Claim claim;
  claim.who = "Kubernetes Indexed Job";
  claim.node_rank = index;

  const std::string suffix = "-" + index->text;
  const std::string full = full_name(around.hosts_file, around.host);
  const std::size_t dot = full.find('.');
  if (around.host.ends_with(suffix) && dot != std::string::npos) {
    const std::string job = around.host.substr(0, around.host.size() - suffix.size());
    claim.master_addr = Value{job + "-0" + full.substr(dot), "the pod's name"};
  } else {
    claim.no_master =
        usage("this Indexed Job's pods have no names for each other (" + around.host + ")", "",
              "give the Job's pods a subdomain with a headless service, or " + std::string(name_it));
  }
  return claim;
}

// --- all ---

// The innermost first: mpirun inside a Slurm job decides what runs where.
Result<std::optional<Claim>> claim_of(const Surroundings& around, const Settings& given) {
  const Variables env(around.environment);
  const MpiNames open_mpi{"Open MPI's mpirun",
                          "OMPI_COMM_WORLD_SIZE",
                          "OMPI_COMM_WORLD_RANK",
                          "OMPI_COMM_WORLD_LOCAL_SIZE",
                          {"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_ess_base_jobid"}};
  const MpiNames hydra{"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", {}};
  if (env.has("OMPI_COMM_WORLD_SIZE")) return mpi(env, open_mpi);
  if (env.has("PMI_SIZE") && env.has("MPI_LOCALNRANKS")) return mpi(env, hydra);
  if (auto claim = slurm(env, find(given, "nnodes") != nullptr); !claim || *claim) return claim;
  if (env.has("PMI_SIZE")) return mpi(env, hydra);
  if (auto claim = pytorch_job(env, around)) return claim;
  return indexed_job(env, around, given);
}

bool is_off(const Surroundings& around, const Settings& given) {
  const Setting* standalone = find(given, "standalone");
  const Setting* scheduler = find(given, "scheduler");
  const bool is_worker = around.environment.contains("TORCHELASTIC_RUN_ID");
  const bool hosts_are_named = find(given, "hosts") || find(given, "hostfile");
  return is_worker || hosts_are_named || (standalone && standalone->value == "true") ||
         (scheduler && scheduler->value == "none");
}

}  // namespace

Result<Detected> detect_scheduler(const Surroundings& around, const Settings& given) {
  Detected out;
  if (is_off(around, given)) return out;
  auto claim = claim_of(around, given);
  if (!claim) return std::move(claim).error();
  if (!*claim) return out;
  Claim& found = **claim;
  out.who = found.who;

  const bool endpoint_given = find(given, "rdzv-endpoint") != nullptr;
  const Setting* nnodes = find(given, "nnodes");
  const Setting* spares = find(given, "spares");
  const int beyond = spares ? std::atoi(spares->value.c_str()) : 0;
  // "2", or the larger number of "1:2".
  const int meant =
      nnodes ? std::atoi(nnodes->value.substr(nnodes->value.find(':') + 1).c_str()) + beyond : 0;
  if (nnodes && found.nnodes && std::to_string(meant) != found.nnodes->text) {
    if (meant > 1 && !endpoint_given && !find(given, "master-addr")) {
      out.warnings.push_back(found.who + " has " + found.nnodes->text + " nodes, and " +
                             std::to_string(meant) + " are asked for: nothing is taken from it; " + name_it);
    }
    return out;
  }
  if (found.no_master && !endpoint_given && !find(given, "master-addr")) return std::move(*found.no_master);
  if (endpoint_given) {
    found.master_addr.reset();
    found.master_port.reset();
  }
  std::vector<std::string> taken;
  const auto take = [&](const char* flag, const std::optional<Value>& value, const char* said) {
    if (!value || find(given, flag)) return;
    out.settings.emplace(flag, Setting{value->text, Origin::scheduler, value->from});
    if (said) taken.push_back(said + value->text);
  };
  take("nnodes", found.nnodes, "nodes ");
  if (beyond == 0) take("node-rank", found.node_rank, "node rank ");  // who waits has none
  take("master-addr", found.master_addr, "master ");
  take("master-port", found.master_port, "port ");
  take("rdzv-id", found.id, "id ");
  if (!taken.empty()) out.said = found.who + ": " + join(taken, ", ");
  out.warnings = std::move(found.warnings);
  return out;
}

}  // namespace dlaunch::launcher
