// Where settings come from and which goes first; what belongs to the program; every mistake's sentence.

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

TEST(Options, DefaultsAreTorchruns) {
  const Options options = good({"x"});
  EXPECT_EQ(options.node.slots, 1);
  EXPECT_EQ(options.job.nnodes, 1);
  EXPECT_EQ(options.job.max_restarts, 0);
  EXPECT_FALSE(options.master_port);
  EXPECT_EQ(options.log, agent::LogOptions{});
  EXPECT_EQ(options.bind, Bind::none);
  EXPECT_FALSE(options.pass_local_rank);
}

TEST(Options, TheCommandLineGoesBeforeVariablesTheseBeforeTheFileAndThisBeforeTheScheduler) {
  const std::map<std::string, std::string> file{{"j", R"({"max-restarts": 4, "nnodes": 3, "role": "file"})"}};
  const EnvironmentMap slurm{{"SLURM_JOB_ID", "1"},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_NODEID", "1"},
                             {"SLURM_STEP_NUM_NODES", "3"},
                             {"SLURM_STEP_NODELIST", "c[1-3]"}};
  EnvironmentMap all = slurm;
  all.insert({{"PET_MAX_RESTARTS", "2"}, {"DLAUNCH_CONFIG", "j"}});
  EXPECT_EQ(good({"--max-restarts=1", "x"}, all, file).job.max_restarts, 1);
  EXPECT_EQ(good({"x"}, all, file).job.max_restarts, 2);
  all["DLAUNCH_MAX_RESTARTS"] = "3";
  EXPECT_EQ(good({"x"}, all, file).job.max_restarts, 3);
  all.erase("DLAUNCH_MAX_RESTARTS");
  all["PET_MAX_RESTARTS"] = "";
  const Options options = good({"x"}, all, file);
  EXPECT_EQ(options.job.max_restarts, 4);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.master_addr, "c1");
  const std::string told = describe_settings(options);
  for (const char* line :
       {"max-restarts              4 (file: max-restarts in j)\n",
        "node-rank                 1 (scheduler: SLURM_NODEID)\n",
        "config                    j (variable DLAUNCH_CONFIG)\n", "tee                       0 (default)\n"})
    EXPECT_NE(told.find(line), std::string::npos) << line << told;
}

TEST(Options, AVariableCannotAskForADryRunAndIsNotMistakenForNothing) {
  EXPECT_EQ(bad({"x"}, {{"DLAUNCH_DRY_RUN", "1"}}),
            "DLAUNCH_DRY_RUN=1: a dry run can be requested on the command line only; write dlaunch "
            "--dry-run, or unset the "
            "variable");
  EXPECT_FALSE(good({"x"}, {{"DLAUNCH_DRY_RUN", "0"}}).dry_run);
}

TEST(Options, AnExportThatIsNotSetIsSaid) {
  EXPECT_EQ(good({"-x", "NOPE", "x"}).warnings, Words{"--export: NOPE is not set here"});
  EXPECT_TRUE(good({"-x", "NOPE=1", "x"}).warnings.empty());
  EXPECT_TRUE(good({"-x", "NOPE", "x"}, {{"NOPE", ""}}).warnings.empty());
}

struct Mistake {
  Words arguments;
  const char* answer;
};

const std::vector<Mistake> mistakes{
    {{}, "no program given; name the program: dlaunch [options] program [arguments ...]"},
    {{"--nproc-per-nod=2", "x"}, "unknown option --nproc-per-nod; did you mean --nproc-per-node?"},
    {{"--max-restart=2", "x"}, "unknown option --max-restart; did you mean --max-restarts?"},
    {{"--rdvz-id=2", "x"}, "unknown option --rdvz-id; did you mean --rdzv-id?"},
    {{"--NNODES=2", "x"}, "unknown option --NNODES; did you mean --nnodes?"},
    {{"--nprocs=2", "x"}, "unknown option --nprocs; did you mean --nproc-per-node?"},
    {{"--rank=1", "x"},
     "unknown option --rank; did you mean --node-rank or --pass-local-rank or --virtual-local-rank?"},
    {{"-nnodes=2", "x"}, "unknown option -nnodes; did you mean --nnodes?"},
    {{"-nproc_per_node=4", "x"}, "unknown option -nproc-per-node; did you mean --nproc-per-node?"},
    {{"-nproc-per-nod=4", "x"}, "unknown option -n in -nproc-per-nod=4; did you mean --nproc-per-node?"},
    {{"-role=x", "x"}, "unknown option -role; did you mean --role?"},
    {{"--nonsense", "x"}, "unknown option --nonsense; see dlaunch --help"},
    {{"-q", "x"}, "unknown option -q; see dlaunch --help"},
    {{"-mq", "x"}, "unknown option -q in -mq; see dlaunch --help"},
    {{"--nnodes"}, "--nnodes needs a value; see dlaunch --help"},
    {{"-t"}, "-t needs a value; see dlaunch --help"},
    {{"--log-dir", "--nnodes=2", "x"},
     "--log-dir needs a value, but is followed by --nnodes=2; a value that begins with a dash is written "
     "--log-dir=--nnodes=2"},
    {{"--standalone=1", "x"}, "--standalone takes no value, but was given '1'; see dlaunch --help"},
    {{"--use-env=maybe", "x"}, "--use-env takes True or False, but was given 'maybe'; see dlaunch --help"},
    {{"--nnodes=2", "--node-rank=2", "x"}, "--node-rank=2 is outside --nnodes=2; node ranks go from 0 to 1"},
    {{"--node-rank=1", "x"}, "--node-rank=1 is outside --nnodes=1; give the number of nodes with --nnodes"},
    {{"--node-rank=-1", "x"}, "--node-rank: -1 is out of range; give a value from 0 to 2147483647"},
    {{"--nproc-per-node=0", "x"},
     "--nproc-per-node: 0 is out of range; give a number from 1 to 65536, auto, cpu, or a device: gpu, "
     "cuda, hip, "
     "amd, rocm, xpu, hpu, npu"},
    {{"--nproc-per-node=tpu", "x"},
     "--nproc-per-node: 'tpu' is not a number; give a number from 1 to 65536, auto, cpu, or a device: gpu, "
     "cuda, "
     "hip, amd, rocm, xpu, hpu, npu"},
    {{"--nnodes=0", "x"}, "--nnodes: 0 is out of range; give a value from 1 to 65536"},
    {{"--nnodes=3:2", "x"},
     "--nnodes=3:2: the smallest number of nodes is larger than the largest; write MIN:MAX"},
    {{"--nnodes=1:2:3", "x"}, "--nnodes=1:2:3 is neither N nor MIN:MAX; write one number, or two"},
    {{"--nnodes=", "x"}, "--nnodes: '' is not a number; see dlaunch --help"},
    {{"--max-restarts=1x", "x"}, "--max-restarts: '1x' is not a number; see dlaunch --help"},
    {{"--max-restarts=-1", "x"}, "--max-restarts: -1 is out of range; give a value from 0 to 1000000"},
    {{"--max-restarts=99999999999999", "x"},
     "--max-restarts: 99999999999999 is out of range; give a value from 0 to 1000000"},
    {{"--join-timeout=nan", "x"}, "--join-timeout: 'nan' is not a number of seconds; see dlaunch --help"},
    {{"--shutdown-timeout=-1", "x"},
     "--shutdown-timeout: -1 is out of range; give a value from 0 to 604800 s"},
    {{"--stop-timeout=1,2", "x"}, "--stop-timeout=1,2 has two times for all signals; write 30,INT@5"},
    {{"--stop-timeout=INT@x", "x"}, "--stop-timeout: 'x' is not a number of seconds; see dlaunch --help"},
    {{"--stop-timeout=1,INT@5,2", "x"},
     "--stop-timeout=1,INT@5,2 has two times for all signals; write 30,INT@5"},
    {{"--monitor-interval=0", "x"},
     "--monitor-interval: 0 is out of range; give a value above 0 and at most 604800 s"},
    {{"--monitor-interval=-1", "x"},
     "--monitor-interval: -1 is out of range; give a value above 0 and at most 604800 s"},
    {{"--monitor-interval=1e9", "x"},
     "--monitor-interval: 1e9 is out of range; give a value above 0 and at most 604800 s"},
    {{"--monitor-interval=x", "x"}, "--monitor-interval: 'x' is not a number of seconds; see dlaunch --help"},
    {{"--log-max-size=10x", "x"},
     "--log-max-size: '10x' is not a size; give a number of bytes, or for example 512M"},
    {{"--log-max-size=10kb", "x"},
     "--log-max-size: '10kb' is not a size; give a number of bytes, or for example 512M"},
    {{"--log-max-size=k", "x"},
     "--log-max-size: 'k' is not a size; give a number of bytes, or for example 512M"},
    {{"--preempt-signal=KILL", "x"},
     "--preempt-signal: SIGKILL cannot be caught or passed on; name another signal, such as "
     "SIGTERM"},
    {{"--stop-timeout=30,SIGSTOP@1", "x"},
     "--stop-timeout: SIGSTOP cannot be caught or passed on; name another signal, such as "
     "SIGTERM"},
    {{"--master-port=70000", "x"}, "--master-port: 70000 is out of range; give a value from 0 to 65535"},
    {{"--nnodes=2", "--master-port=0", "x"},
     "--master-port=0: a job of several nodes needs a fixed port; name one"},
    {{"--nnodes=2", "--rdzv-endpoint=h:0", "x"},
     "--rdzv-endpoint=h:0: a job of several nodes needs a fixed port; name one"},
    {{"--rdzv-endpoint=h:70000", "x"},
     "--rdzv-endpoint: not an address: 'h:70000': the port is not a number from 0 to 65535; write "
     "host:port or "
     "[ipv6]:port"},
    {{"--rdzv-endpoint=h:1:2", "x"},
     "--rdzv-endpoint: not an address: 'h:1:2': it has more than one port; write host:port or [ipv6]:port"},
    {{"--rdzv-endpoint=fe80::1", "x"},
     "--rdzv-endpoint: not an address: 'fe80::1': an IPv6 address needs brackets; write host:port or "
     "[ipv6]:port"},
    {{"--rdzv-endpoint=http://h:1", "x"},
     "--rdzv-endpoint: not an address: 'http://h:1': it is a URL; write host:port or [ipv6]:port"},
    {{"--rdzv-endpoint=a b:1", "x"},
     "--rdzv-endpoint: not an address: 'a b:1': not a valid host name; write host:port or [ipv6]:port"},
    {{"--preempt-signal=USER1", "x"},
     "--preempt-signal: 'SIGUSER1' is not one of SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, "
     "SIGALRM, SIGXCPU, SIGPWR, SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGCONT, SIGPOLL, SIGURG; did you "
     "mean "
     "SIGUSR1?"},
    {{"--rdzv-backend=c10", "x"},
     "--rdzv-backend: 'c10' is not one of static, c10d, etcd, etcd-v2; did you mean c10d?"},
    {{"--rdzv-conf=timeout", "x"}, "--rdzv-conf: 'timeout' is not KEY=VALUE; write join_timeout=600,..."},
    {{"--rdzv-conf=join_timeout=x", "x"},
     "--rdzv-conf: join_timeout: 'x' is not a number of seconds; see dlaunch --help"},
    {{"--start-method=bogus", "x"}, "--start-method: 'bogus' is not one of spawn, fork, forkserver"},
    {{"--hosts=", "x"},
     "--hosts= names no host; is a shell variable empty? For a job on this machine only, leave the flag "
     "out"},
    {{"--hostfile=", "x"},
     "--hostfile= names no host; is a shell variable empty? For a job on this machine only, leave the flag "
     "out"},
    {{"--hosts=a,b", "--node-rank=1", "x"},
     "--hosts=a,b and --node-rank=1 exclude each other; start dlaunch once: it gives each named host "
     "its rank and name"},
    {{"--event-log-handler=x", "x"},
     "--event-log-handler: 'x' is not one of null, console, dynamic_rendezvous"},
    {{"--logs-specs=mine", "x"},
     "--logs-specs=mine names a Python class, which dlaunch does not load; use --log-dir, --redirects, "
     "--tee and "
     "--local-ranks-filter"},
    {{"--module", "--no-python", "x"}, "--module and --no-python exclude each other; see dlaunch --help"},
    {{"--module", "--run-path", "x"}, "--module and --run-path exclude each other; see dlaunch --help"},
    {{"--tee=4", "x"},
     "--tee: '4' is not 0 (nothing), 1 (stdout), 2 (stderr) or 3 (both); write one of them, or "
     "RANK:0-3,... for "
     "some local ranks"},
    {{"--redirects=0:1,3", "x"}, "--redirects: '3' names no local rank; write RANK:0-3,..."},
    {{"--redirects=a:1", "x"}, "--redirects: 'a' is not a number; see dlaunch --help"},
    {{"--local-ranks-filter=0,,1", "x"}, "--local-ranks-filter: '' is not a number; see dlaunch --help"},
    {{"--duplicate-stdout-filters=a,", "x"},
     "--duplicate-stdout-filters: one of the texts is empty; write TEXT,TEXT; two commas stand for a comma "
     "in a "
     "text"},
    {{"--bind=socket", "x"}, "--bind: 'socket' is not one of none, core, numa, gpu"},
    {{"--numa-binding=nod", "x"},
     "--numa-binding: 'nod' is not one of node, socket, exclusive, core-complex; did you mean node?"},
    {{"--bind=core", "--numa-binding=node", "x"},
     "--bind and --numa-binding exclude each other; see dlaunch --help"},
    {{"--rdzv-conf=store_type=file", "x"},
     "--rdzv-conf: store_type=file: the nodes of dlaunch cannot meet through a file; use "
     "--rdzv-endpoint=HOST:PORT; the "
     "agent on "
     "that host serves the store"},
    {{"--nproc-per-node=mps", "x"},
     "--nproc-per-node=mps: Linux has no such device (it is a GPU of macOS); give a number, auto or cpu"},
    {{"--rdzv-conf=is_host=perhaps", "x"},
     "--rdzv-conf: is_host: 'perhaps' is neither true nor false; see dlaunch --help"},
    {{"--restart-limit=3", "x"},
     "--restart-limit=3 is not N@S; write 3@3600 for at most 3 restarts within an hour"},
    {{"--restart-limit=99@1", "x"}, "--restart-limit: 99 is out of range; give a value from 1 to 32"},
    {{"--restart-backoff=x", "x"}, "--restart-backoff: 'x' is not a number of seconds; see dlaunch --help"},
    {{"--no-restart-on=0", "x"}, "--no-restart-on: 0 is out of range; give a value from 1 to 255"},
    {{"--health-check-timeout=26", "x"},
     "--health-check-timeout: 26 is out of range; give a value above 0 and at most 25 s"},
    {{"--rdzv-conf=protocol=https", "x"},
     "--rdzv-conf: protocol: dlaunch reaches etcd by http only; name an endpoint without TLS, on a network "
     "that you trust"},
    {{"--rdzv-endpoint=a,b,a", "x"}, "--rdzv-endpoint=a,b,a names a twice; see dlaunch --help"},
    {{"--rdzv-backend=static", "--nnodes=1:2", "x"},
     "--rdzv-backend=static: static cannot be combined with --nnodes=MIN:MAX, --spares or several "
     "endpoints; use --rdzv-backend=c10d"},
    {{"--nnodes=1:2", "--master-port=0", "x"},
     "--master-port=0: a job of several nodes needs a fixed port; name one"},
    {{"--config=missing", "x"}, "--config: cannot read missing: No such file or directory"},
};

TEST(Options, EveryMistakeIsNamed) {
  for (const Mistake& mistake : mistakes) EXPECT_EQ(bad(mistake.arguments), mistake.answer);
}

TEST(Options, AMistakeInAVariableNamesTheVariable) {
  EXPECT_EQ(bad({"x"}, {{"PET_MAX_RESTARTS", "zz"}}),
            "PET_MAX_RESTARTS: 'zz' is not a number; see dlaunch --help");
  EXPECT_EQ(bad({"x"}, {{"DLAUNCH_NNODES", "zz"}, {"PET_NNODES", "2"}}),
            "DLAUNCH_NNODES: 'zz' is not a number; see dlaunch --help");
  EXPECT_EQ(bad({"x"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "zz"}}),
            "TORCH_ELASTIC_SHUTDOWN_TIMEOUT: 'zz' is not a number of seconds; see dlaunch --help");
}

}  // namespace
}  // namespace dlaunch::launcher
