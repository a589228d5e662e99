#include "launcher/remote/remote_plan.h"

#include "launcher/flags/shell_words.h"
#include "launcher/flags/value_parsers.h"
#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

RemoteFacts facts(std::size_t hosts, EnvironmentMap environment = {}) {
  RemoteFacts out;
  out.executable = "/opt/dlaunch";
  out.folder = "/work";
  out.environment = std::move(environment);
  out.here.assign(hosts, false);
  out.random = 0x1234;
  out.terms = {"k7", false, true, true};
  return out;
}

Result<RemotePlan> planned(const Words& arguments, const RemoteFacts& scheduler_env) {
  const Options options = good(arguments, scheduler_env.environment);
  auto hosts = chosen_hosts(options, *parse_hosts(options.hosts, "--hosts"));
  if (!hosts) return std::move(hosts).error();
  return make_remote_plan(options, *hosts, scheduler_env);
}

// The command line of the host's dlaunch.
Words line_of(const RemoteHost& host) {
  const std::size_t begin = host.script.rfind("\nexec ") + 6;
  return *split_words(host.script.substr(begin, host.script.rfind("\n}") - begin));
}

TEST(RemotePlan, EachHostGetsTheFlagsAndItsPlace) {
  auto plan = planned({"--hosts=a,alice@b:4", "--max-restarts=2", "--no-python", "--no-env-defaults",
                       "./train", "--nnodes=7", "it's"},
                      facts(2));
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  ASSERT_EQ(plan->hosts.size(), 2U);
  EXPECT_EQ(line_of(plan->hosts[0]),
            (Words{"/opt/dlaunch", "--lifeline=k7,err,colours", "--max-restarts=2", "--no-env-defaults",
                   "--no-python", "--nnodes=2", "--rdzv-id=hosts-00001234", "--master-addr=a",
                   "--master-port=24660", "--node-rank=0", "--local-addr=a", "--", "./train", "--nnodes=7",
                   "it's"}));
  EXPECT_EQ(line_of(plan->hosts[1]),
            (Words{"/opt/dlaunch", "--lifeline=k7,err,colours", "--max-restarts=2", "--no-env-defaults",
                   "--no-python", "--nnodes=2", "--rdzv-id=hosts-00001234", "--master-addr=a",
                   "--master-port=24660", "--node-rank=1", "--local-addr=b", "--nproc-per-node=4", "--",
                   "./train", "--nnodes=7", "it's"}));
  EXPECT_EQ(plan->hosts[1].name, "b");
  EXPECT_TRUE(plan->fixed_size);
  EXPECT_EQ(plan->job.nnodes, 2);
}

TEST(RemotePlan, RemoteArgumentsParse) {
  auto plan = planned({"--hosts=a,b", "--nproc-per-node=auto", "--log-line-prefix-template=", "-t3",
                       "--signals-to-handle=SIGUSR1", "--use-env", "-m", "pkg.mod"},
                      facts(2, {{"PET_MAX_RESTARTS", "5"}}));
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  Words line = line_of(plan->hosts[1]);
  line.erase(line.begin());
  // It does not read its own variables: the dlaunch that started it has applied them.
  const Options told = good(line, {{"PET_MAX_RESTARTS", "9"}, {"DLAUNCH_HOSTS", "x,y"}, {"PET_NNODES", "7"}});
  EXPECT_EQ(told.job.max_restarts, 5);
  EXPECT_EQ(told.job.nnodes, 2);
  EXPECT_EQ(told.node_rank, 1);
  EXPECT_EQ(told.slots_kind, Options::Slots::gpus_or_cpus);
  EXPECT_EQ(told.log.line_prefix, "");
  EXPECT_EQ(told.log.tee.of(0), agent::Streams::both);
  EXPECT_TRUE(told.module);
  EXPECT_FALSE(told.pass_local_rank);
  EXPECT_EQ(told.hosts, "");
  EXPECT_EQ(told.lifeline, (LifelineTerms{"k7", false, true, true}));
  EXPECT_EQ(told.program, Words{"pkg.mod"});
}

TEST(RemotePlan, GivenOptionsAreKept) {
  auto plan = planned(
      {"--hosts=a,b:2", "--nproc-per-node=3", "--rdzv-id=x y", "--master-addr=m", "--master-port=77", "t"},
      facts(2));
  const Words line = line_of(plan->hosts[1]);
  for (const char* flag : {"--nproc-per-node=3", "--rdzv-id=x y", "--master-addr=m", "--master-port=77"})
    EXPECT_EQ(std::count(line.begin(), line.end(), flag), 1) << flag;
  EXPECT_EQ(std::count(line.begin(), line.end(), "--nproc-per-node=2"), 0);

  plan = planned({"--hosts=a,b", "--rdzv-endpoint=m:7", "t"}, facts(2));
  const Words other = line_of(plan->hosts[0]);
  EXPECT_EQ(std::count(other.begin(), other.end(), "--rdzv-endpoint=m:7"), 1);
  EXPECT_EQ(join(other, " ").find("--master"), std::string::npos);
}

TEST(RemotePlan, TheWayThereIsSsh) {
  auto plan = planned({"--hosts=a,alice@b", "--ssh=ssh -p 22 -o 'User x'", "t"}, facts(2));
  const Words& command = plan->hosts[1].command;
  EXPECT_EQ(Words(command.begin(), command.begin() + 7),
            (Words{"ssh", "-p", "22", "-o", "User x", "-o", "BatchMode=yes"}));
  EXPECT_EQ(Words(command.end() - 2, command.end()), (Words{"alice@b", "/bin/sh"}));
  EXPECT_NE(join(command, " ").find("-o ConnectTimeout=30"), std::string::npos);

  plan = planned({"--hosts=a,b", "--ssh=/opt/my_rsh -q", "t"}, facts(2));
  EXPECT_EQ(plan->hosts[0].command, (Words{"/opt/my_rsh", "-q", "a", "/bin/sh"}));

  RemoteFacts scheduler_env = facts(2);
  scheduler_env.here[0] = true;
  plan = planned({"--hosts=a,b", "t"}, scheduler_env);
  EXPECT_EQ(plan->hosts[0].command, Words{"/bin/sh"});
  EXPECT_TRUE(plan->hosts[0].here);
  EXPECT_FALSE(plan->hosts[1].here);
}

TEST(RemotePlan, HostsStartHostsInAJobOfAFixedSize) {
  auto plan = planned({"--hosts=h[0-6]", "--tree-width=2", "./train"}, facts(7));
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  std::vector<int> starters;
  std::vector<bool> relays;
  for (const RemoteHost& host : plan->hosts) {
    starters.push_back(host.starter);
    relays.push_back(!host.relay_script.empty());
  }
  EXPECT_EQ(starters, (std::vector<int>{-1, -1, 1, 1, -1, 4, 4})) << "node 0 is started from here";
  EXPECT_EQ(relays, (std::vector<bool>{false, true, false, false, true, false, false}));
  EXPECT_NE(plan->hosts[1].relay_script.find("\nexec /opt/dlaunch --relay=k7\n}"), std::string::npos)
      << plan->hosts[1].relay_script;
  EXPECT_EQ(describe(plan->hosts[5], 5).find("node 5, h5, started by node 4:\n"), 0U);

  // A job that goes on without a host must not lose others with it.
  plan = planned({"--hosts=h[0-6]", "--tree-width=2", "--nnodes=4:7", "./train"}, facts(7));
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  for (const RemoteHost& host : plan->hosts) EXPECT_EQ(host.starter, started_from_here);
}

TEST(RemotePlan, VariablesGoAlongByRuleAndByName) {
  const EnvironmentMap environment{{"PATH", "/bin"},
                                   {"HOME", "/root"},
                                   {"NCCL_DEBUG", "INFO"},
                                   {"PET_NNODES", "2"},
                                   {"DLAUNCH_TOKEN", "s"},
                                   {"DLAUNCH_ROLE", "r"},
                                   {"OMP_NUM_THREADS", "3"},
                                   {"CUDA_VISIBLE_DEVICES", "0"},
                                   {"MINE", "it's\n$x"},
                                   {"TORCHELASTIC_ERROR_FILE", "/x"},
                                   {"TORCH_SHOW_CPP_STACKTRACES", "1"}};
  const Options options = good(
      {"--hosts=a", "-x", "MINE", "--export=NEW=a=b", "-x", "MISSING", "-x", "PATH=/new", "t"}, environment);
  EXPECT_EQ(carried_environment(options, environment), (EnvironmentMap{{"PATH", "/new"},
                                                                       {"NCCL_DEBUG", "INFO"},
                                                                       {"DLAUNCH_TOKEN", "s"},
                                                                       {"OMP_NUM_THREADS", "3"},
                                                                       {"MINE", "it's\n$x"},
                                                                       {"NEW", "a=b"},
                                                                       {"TORCH_SHOW_CPP_STACKTRACES", "1"}}));
  auto plan = make_remote_plan(options, {{"a", 0}}, facts(1, environment));
  ASSERT_TRUE(plan.ok());
  EXPECT_NE(plan->hosts[0].script.find("export MINE='it'\\''s\n$x'\n"), std::string::npos);
  EXPECT_NE(plan->hosts[0].script.find("cd /work 2>/dev/null || "), std::string::npos);
}

TEST(RemotePlan, ExportsComeFromAllSources) {
  EXPECT_EQ(good({"--hosts=a", "t"}, {{"DLAUNCH_EXPORT", "A\nB=1"}}).exports, (Words{"A", "B=1"}));
  EXPECT_EQ(good({"--config=f", "--hosts=a", "t"}, {}, {{"f", R"({"export": ["A", "B=1,2"]})"}}).exports,
            (Words{"A", "B=1,2"}));
  EXPECT_EQ(bad({"--hosts=a", "-x", "1A", "t"}).find("--export: '1A' is not NAME or NAME=VALUE"), 0U);
  EXPECT_EQ(bad({"-x", "", "-x", "=2", "t"}).find("--export: '=2' is not NAME"), 0U);
}

TEST(RemotePlan, ContradictingOptionsAreRejected) {
  EXPECT_EQ(bad({"--hosts=a,b", "--node-rank=0", "t"}),
            "--hosts=a,b and --node-rank=0 exclude each other; start dlaunch once: it gives each named host "
            "its rank and name");
  EXPECT_NE(bad({"--hosts=a", "--standalone", "t"}).find("exclude each other"), std::string::npos);
  EXPECT_NE(bad({"--hosts=a", "--local-addr=b", "t"}).find("exclude each other"), std::string::npos);
  EXPECT_EQ(bad({"--hosts=a", "--hostfile=f", "t"}),
            "--hosts=a and --hostfile=f exclude each other; give one of them");
  EXPECT_EQ(bad({"--hosts=a", "--ssh=ssh 'x", "t"}), "--ssh=ssh 'x is not a command: a ' is not closed");
  EXPECT_EQ(planned({"--hosts=localhost,b", "t"}, facts(2)).error().message(),
            "the first host is node 0, but the other hosts cannot reach it as 'localhost'; list it by a name "
            "that they can resolve, or give --master-addr");
  EXPECT_TRUE(planned({"--hosts=localhost,b", "--master-addr=m", "t"}, facts(2)).ok());
}

TEST(RemotePlan, AsManyHostsAsAreAskedFor) {
  EXPECT_EQ(planned({"--hosts=a,b,c", "--nnodes=2", "t"}, facts(2))->hosts.size(), 2U);
  EXPECT_EQ(planned({"--hosts=a,b", "--nnodes=3", "t"}, facts(2)).error().message(),
            "--nnodes=3, but 2 hosts are named; name more hosts, or leave --nnodes out");
  const auto elastic = planned({"--hosts=a,b,c", "--nnodes=1:3", "t"}, facts(3));
  EXPECT_FALSE(elastic->fixed_size);
  EXPECT_NE(elastic->hosts[0].script.find(" --nnodes=1:3 "), std::string::npos);
}

TEST(RemotePlan, HostsOverrideTheScheduler) {
  const EnvironmentMap slurm{{"SLURM_JOB_ID", "42"}, {"SLURM_JOB_NUM_NODES", "4"}};
  EXPECT_TRUE(good({"--hosts=a,b", "t"}, slurm).notices.empty());
  EXPECT_NE(bad({"t"}, slurm).find("Slurm job 42 has 4 nodes"), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::launcher
