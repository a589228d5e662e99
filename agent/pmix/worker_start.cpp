#include "agent/pmix/worker_start.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "agent/pmix/agent_connection.h"
#include "store/base/base64.h"
#include "store/base/number.h"

namespace dlaunch::agent {
namespace {

constexpr std::chrono::seconds patience{60};  // for the server's start, on a machine that is busy
constexpr int cannot_execute = 126;           // the codes of a shell
constexpr int not_found = 127;

int fail(int code, const std::string& what) {
  std::fprintf(stderr, "dlaunch-pmix: %s\n", what.c_str());
  return code;
}

// Each is set by one thread, before the program begins.
void set(const char* name, const std::string& value, bool replace = true) {
  setenv(name, value.c_str(), replace ? 1 : 0);  // NOLINT(concurrency-mt-unsafe)
}

// Open MPI's ranks spin. With more ranks than processors one that spins keeps the processor from the rank
// that it waits for, unless it is told to give way. Its own mpirun does the same.
void yield_if_crowded() {
  const char* const ranks_here = std::getenv("LOCAL_WORLD_SIZE");  // NOLINT(concurrency-mt-unsafe)
  const auto ranks = parse_number<int>(ranks_here != nullptr ? ranks_here : "");
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (!ranks || sched_getaffinity(0, sizeof cpus, &cpus) != 0 || *ranks <= CPU_COUNT(&cpus)) return;
  set("OMPI_MCA_mpi_yield_when_idle", "1", false);
}

// Open MPI 4 takes a rank that its own mpirun did not start for one that is alone, unless a scheduler is
// there that it knows, and does not look for PMIx. Open MPI 5 does, and does not know these settings.
void make_open_mpi_look_for_pmix() {
  set("OMPI_MCA_schizo", "^orte", false);
  set("OMPI_MCA_ess", "pmi", false);
}

// Open MPI would give the ranks' memory names that begin with the host's: two nodes of a job on one machine
// would use each other's. In the job's folder it is removed with the job, too.
void place_shared_memory() {
  const char* const folder = std::getenv("PMIX_SERVER_TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  if (folder == nullptr || !std::string_view(folder).starts_with("/dev/shm/")) return;
  set("OMPI_MCA_btl_vader_backing_directory", folder, false);
}

}  // namespace

int start_worker(char** words) {
  const char* const text = std::getenv("PMI_FD");  // NOLINT(concurrency-mt-unsafe)
  const auto fd = parse_number<int>(text != nullptr ? text : "");
  if (!fd) return fail(1, "it is started by dlaunch only (PMI_FD is not set)");
  {
    AgentConnection agent(*fd);
    agent.send("cmd=variables\n");
    for (;;) {
      const auto line = agent.receive(patience);
      if (!line) return fail(1, "no variables for MPI came from dlaunch: its PMIx server has ended or hangs");
      if (line->command() == "start") break;
      const auto value = from_base64(line->value("value").value_or(""));
      if (line->command() == "variable" && value) set(line->value("name").value_or("").c_str(), *value);
    }
  }
  unsetenv("PMI_FD");  // NOLINT(concurrency-mt-unsafe)
  make_open_mpi_look_for_pmix();
  yield_if_crowded();
  place_shared_memory();
  execvp(words[0], words);
  return fail(errno == ENOENT ? not_found : cannot_execute,
              std::string("cannot run ") + words[0] + ": " + std::strerror(errno));
}

}  // namespace dlaunch::agent
