#include "launcher/commands/commands.h"

#include "launcher/commands/completion_command.h"
#include "launcher/commands/doctor_command.h"
#include "launcher/commands/dump_command.h"
#include "launcher/commands/job_commands.h"
#include "launcher/commands/logs_command.h"
#include "launcher/commands/store_command.h"
#include "launcher/commands/top_command.h"

namespace dlaunch::launcher {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
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

const Command* find_command(const std::string& name) {
  for (const Command& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace dlaunch::launcher
