// Plans what is started on each host: the command that connects to it, and the script for its shell. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job.h"
#include "launcher/options/options.h"
#include "launcher/remote/host_file.h"
#include "launcher/remote/remote_protocol.h"
#include "launcher/remote/start_tree.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// The facts of this dlaunch and its machine that the plan needs.
struct RemoteFacts {
  std::string executable;  // dlaunch, where it is expected on every host
  std::string folder;      // the working directory, on every host
  EnvironmentMap environment;
  std::vector<bool> here;    // by host: it is this machine
  std::uint64_t random = 0;  // for the id and port of a job that has none
  LifelineTerms terms;
};

struct RemoteHost {
  std::string name;   // without a user
  std::string login;  // as passed to ssh: "user@name"
  bool here = false;
  std::vector<std::string> command;      // ends in a shell on the host
  std::string script;                    // that shell's standard input
  std::vector<std::string> arguments{};  // of the dlaunch that it starts
  int starter = started_from_here;       // the node whose host runs `command`
  std::string relay_script{};            // if this host starts others: the script for the relay there
};

struct RemotePlan {
  agent::JobSpec job;             // as far as it is known without the machines
  std::vector<RemoteHost> hosts;  // by node rank
  std::string key;                // of their --lifeline
  // The job's secret, if there is one, for the host's shell, before its script. It appears on no command line
  // and in no --dry-run.
  std::string secret_line{};
  bool fixed_size = true;  // the job cannot continue with fewer hosts
};

// The command that connects to a host, and ends in a shell there. `here`: the host is this machine.
std::vector<std::string> command_to(const HostEntry& host, bool here, const std::vector<std::string>& ssh);

// What that shell reads: it goes to the folder, sets the variables, and becomes the command `line`, which is
// a dlaunch. If it cannot, it writes a line that begins with "dlaunch: ".
std::string script_of(const RemoteFacts& facts, const EnvironmentMap& carried,
                      const std::vector<std::string>& line);

// The first hosts of the list, as many as --nnodes requests.
Result<std::vector<HostEntry>> chosen_hosts(const Options& options, std::vector<HostEntry> all);

// REQUIRES: hosts and facts.here are equally long.
Result<RemotePlan> make_remote_plan(const Options& options, const std::vector<HostEntry>& hosts,
                                    const RemoteFacts& facts);

// The variables, with values, that every host gets; sorted.
EnvironmentMap carried_environment(const Options& options, const EnvironmentMap& environment);

// How the host's dlaunch is started, for --dry-run.
std::string describe(const RemoteHost& host, int node);

}  // namespace dlaunch::launcher
