#include "launcher/commands/commands.h"

#include "launcher/commands/completion_command.h"
#include "launcher/commands/doctor_command.h"
#include "launcher/commands/dump_command.h"
#include "launcher/commands/logs_command.h"
#include "launcher/commands/status_command.h"
#include "launcher/commands/stop_command.h"
#include "launcher/commands/store_command.h"
#include "launcher/commands/top_command.h"
#include "launcher/commands/trace_command.h"

namespace dlaunch::launcher {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"status", "list the jobs on this machine", run_status},
      {"top", "show jobs and their workers live", run_top},
      {"stop", "end a job", run_stop},
      {"logs", "show what a job's workers wrote into log files", run_logs},
      {"dump", "show where each worker of a job is: collectives, threads, stacks", run_dump},
      {"trace", "write the latest operations of all ranks as a trace for Perfetto", run_trace},
      {"doctor", "check this machine, and the connection to another", run_doctor},
      {"completion", "print the completion script of a shell", run_completion},
      {"store", "run a key-value store server, or query one", run_store},
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
