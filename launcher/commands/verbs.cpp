#include "launcher/commands/verbs.h"

#include "launcher/commands/completion_verb.h"
#include "launcher/commands/doctor_verb.h"
#include "launcher/commands/dump_verb.h"
#include "launcher/commands/job_verbs.h"
#include "launcher/commands/logs_verb.h"
#include "launcher/commands/store_verb.h"
#include "launcher/commands/top_verb.h"

namespace dlaunch::launcher {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> all = {
      {"status", "the jobs on this machine", run_status},
      {"top", "a live view of them and their workers", run_top},
      {"stop", "end one", run_stop},
      {"logs", "what its workers wrote into log files", run_logs},
      {"dump", "where each of its workers is: collectives, threads, stacks", run_dump},
      {"doctor", "check this machine, and the way to another", run_doctor},
      {"completion", "make a shell complete dlaunch's flags and commands", run_completion},
      {"store", "a key-value store server, and questions to one", run_store},
  };
  return all;
}

const Verb* find_verb(const std::string& name) {
  for (const Verb& verb : verbs()) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

}  // namespace dlaunch::launcher
