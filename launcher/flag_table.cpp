#include "launcher/flag_table.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace dlaunch::launcher {
namespace {

using Group = FlagGroup;

// In the order of --help.
constexpr std::array table{
    Flag{.name = "nproc-per-node",
         .value = "N|auto|cpu|gpu",
         .help = "workers on this node: a number, cpu, gpu, or auto (GPUs, else CPUs)",
         .fallback = "1",
         .group = Group::workers,
         .torchrun = true,
         .pet = true},
    Flag{.name = "role",
         .value = "NAME",
         .help = "name of the workers' role (ROLE_NAME)",
         .fallback = "default",
         .group = Group::workers,
         .torchrun = true,
         .pet = true},

    Flag{.name = "nnodes",
         .value = "N|MIN:MAX",
         .help = "nodes of the job",
         .fallback = "1",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "node-rank",
         .value = "N",
         .help = "number of this node, 0 to nnodes-1; node 0 serves the store",
         .fallback = "static: 0; otherwise any that is free",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "master-addr",
         .value = "HOST",
         .help = "host of node 0, as all nodes reach it",
         .fallback = "127.0.0.1",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "master-port",
         .value = "PORT",
         .help = "port on node 0",
         .fallback = "one node: a free one; several: 29500",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "local-addr",
         .value = "HOST",
         .help = "this node's name, for the others and in messages",
         .fallback = "its host name",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "standalone",
         .help = "one node, a free port, whatever else is said; an id of its own unless one is given",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "rdzv-backend",
         .value = "NAME",
         .help = "how nodes find each other: static, c10d, etcd, etcd-v2",
         .fallback = "c10d with an endpoint and no ranks, otherwise static",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "rdzv-endpoint",
         .value = "HOST[:PORT],...",
         .help = "where nodes meet; with several, the next one serves when one is lost",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "rdzv-id",
         .value = "ID",
         .help = "the job's id; nodes with another id are refused",
         .fallback = "none",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "rdzv-conf",
         .value = "K=V,...",
         .help = "torchrun's settings of the rendezvous, as join_timeout, last_call_timeout, is_host",
         .group = Group::nodes,
         .torchrun = true,
         .pet = true},
    Flag{.name = "token-file",
         .value = "FILE",
         .help = "the job's secret, which agents must prove to join (or DLAUNCH_TOKEN); mode 600",
         .group = Group::nodes},
    Flag{.name = "join-timeout",
         .value = "S",
         .help = "seconds that nodes wait for each other",
         .fallback = "900",
         .group = Group::nodes},
    Flag{.name = "last-call-timeout",
         .value = "S",
         .help = "seconds that MIN nodes wait for more, up to MAX",
         .fallback = "30",
         .group = Group::nodes},
    Flag{.name = "spares",
         .value = "N",
         .help = "nodes beyond --nnodes that wait to take a lost one's place",
         .fallback = "0",
         .group = Group::nodes},
    Flag{.name = "scheduler",
         .value = "auto|none",
         .help = "take nodes and ranks from Slurm, PBS, mpirun or Kubernetes where they are not given",
         .fallback = "auto",
         .group = Group::nodes},

    Flag{.name = "hosts",
         .value = "HOST[:N],...",
         .help = "start the job on these hosts, over ssh; the first is node 0; N is --nproc-per-node there",
         .group = Group::hosts},
    Flag{.name = "hostfile",
         .value = "FILE",
         .help = "the same, one host a line: HOST, HOST slots=N or HOST:N",
         .group = Group::hosts},
    Flag{.name = "ssh",
         .value = "COMMAND",
         .help = "the remote shell and its options",
         .fallback = "ssh",
         .group = Group::hosts},
    Flag{.name = "export",
         .letter = 'x',
         .value = "NAME[=VALUE]",
         .help = "a variable that the workers on all hosts get; may be given several times",
         .group = Group::hosts,
         .repeats = true},
    Flag{.name = "lifeline",
         .value = "KEY",
         .help = "for the dlaunch that started this one on its host: standard input carries its signals, and "
                 "its end stops the job",
         .group = Group::hosts,
         .settable = false},

    Flag{.name = "max-restarts",
         .value = "N",
         .help = "restarts of all workers together, over the job's life",
         .fallback = "0",
         .group = Group::failure,
         .torchrun = true,
         .pet = true},
    Flag{.name = "count-membership-changes",
         .help = "nodes that are lost use up --max-restarts, too (as in torchrun)",
         .group = Group::failure},
    Flag{.name = "restart-limit",
         .value = "N@S",
         .help = "more than N restarts within S seconds end the job",
         .fallback = "no limit",
         .group = Group::failure},
    Flag{.name = "restart-backoff",
         .value = "S[:MAX]",
         .help = "wait S seconds before a restart after two quick failures, then twice as long each time; 0: "
                 "never",
         .fallback = "1:60",
         .group = Group::failure},
    Flag{.name = "no-restart-on",
         .value = "CODE,...",
         .help = "a worker that ends with one of these exit codes ends the job",
         .group = Group::failure},
    Flag{.name = "startup-grace",
         .value = "S",
         .help = "a worker that fails within S seconds of the job's start ends it: what cannot start is not "
                 "restarted; 0: it is",
         .fallback = "0",
         .group = Group::failure},
    Flag{.name = "exclude-after",
         .value = "N",
         .help = "leave out a node that was the cause of N failures, where the others are enough; 0: never",
         .fallback = "0",
         .group = Group::failure},
    Flag{.name = "health-check",
         .value = "COMMAND",
         .help = "a shell command that must return 0 before this node takes part in a round",
         .group = Group::failure},
    Flag{.name = "health-check-timeout",
         .value = "S",
         .help = "seconds that it may take, at most 25",
         .fallback = "20",
         .group = Group::failure},
    Flag{.name = "node-timeout",
         .value = "S",
         .help = "a node that is silent for so many seconds is lost; 0: only a broken connection tells",
         .fallback = "5",
         .group = Group::failure},
    Flag{.name = "hang-timeout",
         .value = "S",
         .help = "no worker moves for so many seconds and one waits in a collective of libdlaunch: a failure "
                 "that says who is missing; 0: never",
         .fallback = "0",
         .group = Group::failure},
    Flag{
        .name = "stop-timeout",
        .value = "S[,SIG@S...]",
        .help =
            "seconds from the signal that stops workers to SIGKILL; 0: SIGKILL at once; after SIG other ones",
        .fallback = "30",
        .group = Group::failure},
    Flag{.name = "shutdown-timeout",
         .value = "S",
         .help = "torchrun's name of --stop-timeout",
         .group = Group::failure,
         .torchrun = true,
         .pet = true,
         .means = "stop-timeout",
         .extra_variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
    Flag{.name = "signals-to-handle",
         .value = "SIG,...",
         .help = "signals that are passed on and end the job",
         .fallback = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
         .group = Group::failure,
         .torchrun = true,
         .pet = true},
    Flag{.name = "preempt-signal",
         .value = "SIG[@S]",
         .help = "what workers get S seconds (30) before the SIGTERM, when dlaunch is told to end by SIGTERM",
         .group = Group::failure},
    Flag{.name = "preempt-ok",
         .help =
             "when dlaunch was told to end by SIGTERM and all its workers then return 0, it ends with 0, too",
         .group = Group::failure},
    Flag{.name = "monitor-interval",
         .value = "S",
         .help = "accepted; workers are watched by events, not at intervals",
         .group = Group::failure,
         .torchrun = true,
         .pet = true},

    Flag{.name = "module",
         .letter = 'm',
         .help = "the program is a Python module: python3 -u -m",
         .group = Group::program,
         .torchrun = true,
         .pet = true},
    Flag{.name = "no-python",
         .help = "start the program itself, also where it is Python source",
         .group = Group::program,
         .torchrun = true,
         .pet = true},
    Flag{.name = "run-path",
         .help = "the program is Python source, whatever its name ends in",
         .group = Group::program,
         .torchrun = true,
         .pet = true},
    Flag{.name = "pass-local-rank",
         .help = "give the program --local-rank=N as its first argument, as torch.distributed.launch does",
         .group = Group::program},
    Flag{.name = "use-env",
         .help = "give it no such argument (torch.distributed.launch's name)",
         .group = Group::program,
         .torchrun = true,
         .means = "pass-local-rank",
         .negates = true},
    Flag{.name = "start-method",
         .value = "NAME",
         .help = "spawn, fork or forkserver: accepted; every worker is a new process",
         .fallback = "spawn",
         .group = Group::program,
         .torchrun = true,
         .pet = true},
    Flag{.name = "worker-store",
         .value = "PORT",
         .help =
             "worker rank 0 serves the workers' store at this port, not dlaunch: for a PyTorch without libuv",
         .fallback = "dlaunch serves it",
         .group = Group::program},
    Flag{.name = "no-env-defaults",
         .help = "leave OMP_NUM_THREADS and the variables for PyTorch's transports unset",
         .group = Group::program},

    Flag{.name = "log-dir",
         .value = "DIR",
         .help = "where log files go, each job in a directory of its own",
         .fallback = "the temporary directory",
         .group = Group::output,
         .torchrun = true,
         .pet = true},
    Flag{.name = "redirects",
         .letter = 'r',
         .value = "0-3|RANK:0-3,...",
         .help = "to a file instead of the console: 0 nothing, 1 stdout, 2 stderr, 3 both",
         .fallback = "0",
         .group = Group::output,
         .torchrun = true,
         .pet = true},
    Flag{.name = "tee",
         .letter = 't',
         .value = "0-3|RANK:0-3,...",
         .help = "to a file as well as to the console",
         .fallback = "0",
         .group = Group::output,
         .torchrun = true,
         .pet = true},
    Flag{.name = "local-ranks-filter",
         .value = "RANK,...",
         .help = "show only these local ranks on the console",
         .group = Group::output,
         .torchrun = true,
         .pet = true},
    Flag{.name = "global-ranks-filter",
         .value = "RANK,...",
         .help = "show only these ranks, of all nodes, on the console",
         .group = Group::output},
    Flag{.name = "duplicate-stdout-filters",
         .value = "TEXT,...",
         .help = "copy lines of stdout that contain one of these to one more file",
         .group = Group::output,
         .torchrun = true,
         .pet = true},
    Flag{.name = "duplicate-stderr-filters",
         .value = "TEXT,...",
         .help = "the same for stderr",
         .group = Group::output,
         .torchrun = true,
         .pet = true},
    Flag{.name = "log-line-prefix-template",
         .value = "TEXT",
         .help = "before each console line; ${role_name}, ${rank}, ${local_rank}, ${host}, ${time} are "
                 "replaced; '' "
                 "for none",
         .group = Group::output,
         .extra_variable = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
    Flag{
        .name = "log-max-size",
        .value = "SIZE",
        .help = "a log file that is larger becomes FILE.1, that one FILE.2: bytes, or for example 64M or 10k",
        .fallback = "no limit",
        .group = Group::output},
    Flag{.name = "log-keep",
         .value = "N",
         .help = "how many of those are kept",
         .fallback = "3",
         .group = Group::output},
    Flag{.name = "output-timeout",
         .value = "S",
         .help = "when the job has ended and the reader of stdout or stderr takes nothing for so long, the "
                 "rest is "
                 "dropped, and counted in the last line",
         .fallback = "5",
         .group = Group::output},
    Flag{.name = "event-log-handler",
         .value = "NAME",
         .help = "console: the events of --events on stderr; null or dynamic_rendezvous: not",
         .fallback = "null",
         .group = Group::output,
         .torchrun = true,
         .pet = true},
    Flag{.name = "logs-specs",
         .value = "NAME",
         .help = "default: accepted; other names are classes of torchrun's",
         .fallback = "default",
         .group = Group::output,
         .torchrun = true},

    Flag{.name = "bind",
         .value = "none|core|numa|gpu",
         .help = "CPUs of a worker: its own cores, a NUMA node, or those near its GPU",
         .fallback = "none",
         .group = Group::placement},
    Flag{.name = "numa-binding",
         .value = "NAME",
         .help = "torchrun's bindings: node, socket, exclusive, core-complex",
         .group = Group::placement,
         .torchrun = true},
    Flag{.name = "virtual-local-rank",
         .help = "LOCAL_RANK is 0 for every worker, and each sees one GPU",
         .group = Group::placement,
         .torchrun = true,
         .pet = true},

    Flag{.name = "report",
         .value = "FILE",
         .help = "when the job has ended, say how in this file (JSON)",
         .group = Group::failure},
    Flag{.name = "events",
         .value = "FILE",
         .help = "append what happens to the job to this file (JSON, one object a line)",
         .group = Group::failure},
    Flag{.name = "config",
         .value = "FILE",
         .help = "a JSON object with flags' names as keys; variables and the command line go before it",
         .group = Group::other},
    Flag{.name = "dry-run",
         .help = "print what would be started, and start nothing",
         .group = Group::other,
         .settable = false},
    Flag{.name = "verbose", .letter = 'v', .help = "say more of what is done", .group = Group::other},
    Flag{.name = "version", .help = "print the version", .group = Group::other, .settable = false},
    Flag{.name = "help",
         .letter = 'h',
         .help = "print this help",
         .group = Group::other,
         .torchrun = true,
         .settable = false},
};

}  // namespace

std::span<const Flag> flags() { return table; }

const Flag* find_flag(std::string_view name) {
  const auto* found =
      std::find_if(table.begin(), table.end(), [&](const Flag& flag) { return flag.name == name; });
  return found == table.end() ? nullptr : &*found;
}

const Flag* find_flag(char letter) {
  const auto* found = std::find_if(table.begin(), table.end(), [&](const Flag& flag) {
    return flag.letter != '\0' && flag.letter == letter;
  });
  return found == table.end() ? nullptr : &*found;
}

const Flag& canonical(const Flag& flag) { return flag.means.empty() ? flag : *find_flag(flag.means); }

std::string_view title_of(FlagGroup group) {
  switch (group) {
    case Group::workers:
      return "Workers";
    case Group::nodes:
      return "Nodes";
    case FlagGroup::hosts:
      return "Other hosts";
    case Group::failure:
      return "Failure and end";
    case Group::program:
      return "Program";
    case Group::output:
      return "Output";
    case Group::placement:
      return "Placement";
    case Group::other:
      return "Other";
  }
  return "Other";
}

std::string variable_part(std::string_view flag_name) {
  std::string out(flag_name);
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> variables_of(const Flag& flag) {
  std::vector<std::string> out;
  if (!flag.settable) return out;
  out.push_back("DLAUNCH_" + variable_part(flag.name));
  if (flag.pet) out.push_back("PET_" + variable_part(flag.name));
  if (!flag.extra_variable.empty()) out.emplace_back(flag.extra_variable);
  return out;
}

}  // namespace dlaunch::launcher
