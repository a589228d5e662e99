// From the list of hosts to what is started on each: the way there, and what the shell there is told. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job.h"
#include "launcher/options/options.h"
#include "launcher/remote/host_file.h"
#include "launcher/remote/remote_protocol.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// What the plan needs to know of this dlaunch and its machine.
struct RemoteFacts {
  std::string executable;  // dlaunch, where it is expected on every host
  std::string folder;      // the working directory, on every host
  EnvironmentMap environment;
  std::vector<bool> here;    // by host: it is this machine
  std::uint64_t random = 0;  // makes id and port of a job that has none
  LifelineTerms terms;
};

struct RemoteHost {
  std::string name;   // without a user
  std::string login;  // as ssh is given it: "user@name"
  bool here = false;
  std::vector<std::string> command;      // run on this machine; ends in a shell on the host
  std::string script;                    // that shell's standard input
  std::vector<std::string> arguments{};  // of the dlaunch that it starts
};

struct RemotePlan {
  agent::JobSpec job;             // as far as it is known without the machines
  std::vector<RemoteHost> hosts;  // by node rank
  std::string key;                // of their --lifeline
  // What a host's shell reads before its script: the job's secret, if there is one. It is on no command line,
  // and no --dry-run shows it.
  std::string secret_line{};
  bool fixed_size = true;  // the job cannot go on with fewer
};

// As many of the hosts as --nnodes asks for.
Result<std::vector<HostEntry>> chosen_hosts(const Options& options, std::vector<HostEntry> all);

// REQUIRES: hosts and facts.here are equally long.
Result<RemotePlan> make_remote_plan(const Options& options, const std::vector<HostEntry>& hosts,
                                    const RemoteFacts& facts);

// The variables that go to every host with the values they have there; sorted.
EnvironmentMap carried_environment(const Options& options, const EnvironmentMap& environment);

// How its dlaunch is started, for --dry-run.
std::string describe(const RemoteHost& host, int node);

}  // namespace dlaunch::launcher
