#include "agent/model/remedy.h"

#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {

std::string remedy_of_missing_nodes(const Address& endpoint, const std::vector<int>& missing) {
  std::string start = "start this command on more nodes";
  if (missing.size() == 1) {
    start = "start this command on the missing node, with --node-rank=" + std::to_string(missing.front());
  } else if (!missing.empty()) {
    ShortList ranks;
    for (const int rank : missing) ranks.add(std::to_string(rank));
    start = "start this command on the missing nodes, with the --node-rank of each: " + ranks.text();
  }
  return start + "; if it runs there already, there: dlaunch doctor --peer=" + to_string(endpoint);
}

std::string remedy_of_silent_endpoint(const Address& endpoint) {
  return "check that dlaunch runs as node 0 on " + endpoint.host +
         " (torchrun cannot join a dlaunch job), --master-addr and --master-port; dlaunch doctor --peer=" +
         to_string(endpoint);
}

std::string remedy_of_pause(const std::string& host, Duration node_timeout) {
  return "find what stopped dlaunch or the machine on host " + host +
         "; if it may pause for so long, raise --node-timeout (it is " + to_words(node_timeout) + ")";
}

std::string remedy_of_hang(const JobSpec& job, const Failure& failure, bool is_stopped) {
  if (failure.rank < 0 || failure.host.empty()) return "";
  const std::string rank = "rank " + std::to_string(failure.rank);
  if (is_stopped)
    return "find what stopped " + rank + " on host " + failure.host + ": SIGSTOP, or a debugger";
  return "without --hang-timeout, run 'dlaunch dump " + job.id + "' on host " + failure.host +
         " while it hangs: it shows the stacks of " + rank;
}

std::string remedy_of_stopped_rank(const Failure& failure) {
  if (failure.rank < 0 || failure.host.empty() || failure.pid <= 0) return "";
  return "kill -CONT " + std::to_string(failure.pid) + " on host " + failure.host +
         ", if no debugger holds it";
}

std::string remedy_of_late_device(const Failure& failure, bool is_there) {
  if (failure.rank < 0 || failure.host.empty()) return "";
  if (!is_there || failure.pid <= 0) {
    return "look for a kernel of rank " + std::to_string(failure.rank) +
           " that does not end: start the job with CUDA_LAUNCH_BLOCKING=1, so that its stack shows the "
           "kernel, or run cuda-gdb and py-spy on host " +
           failure.host + " while it hangs" + (is_there ? "" : ", without --hang-timeout");
  }
  const std::string pid = std::to_string(failure.pid);
  return "cuda-gdb -p " + pid + " and py-spy dump --pid " + pid + " on host " + failure.host +
         "; or start the job with CUDA_LAUNCH_BLOCKING=1, so that the rank's stack shows the kernel";
}

std::string remedy_of_stuck_devices(const std::vector<std::string>& hosts) {
  constexpr std::size_t most = 8;
  std::string names;
  for (const std::string& host : hosts) names += (names.empty() ? "" : ",") + host;
  if (hosts.size() > most) names = "HOST,HOST";
  const std::string check = hosts.size() == 1
                                ? "; dlaunch doctor on host " + names + " checks the GPUs' links"
                                : "; dlaunch doctor --peer=" + names + " checks the network";
  return "start the job with NCCL_DEBUG=INFO to see what NCCL does" + (hosts.empty() ? "" : check);
}

std::string remedy_of_early_return() {
  return "give every rank the same number of steps, or call barrier() before destroy_process_group()";
}

std::string remedy_of_early_return_from_mpi() {
  return "let every rank call MPI_Init, and MPI_Finalize before it returns";
}

std::string remedy_of_health_check(const std::string& command, const std::string& host) {
  constexpr std::size_t longest = 200;
  return "run the health check by hand on host " + host + ": " +
         shortened(sanitize_for_terminal(command), longest);
}

std::string remedy_of_unkillable(const std::string& host) {
  return "dmesg on host " + host +
         ": a process that survives SIGKILL waits in the kernel, often for a network file system, a disk or "
         "a GPU";
}

std::string remedy_of_killed_helper(const std::string& host) {
  return "dmesg and journalctl on host " + host + " may show who killed it";
}

}  // namespace dlaunch::agent
