#include "launcher/options/plan.h"

#include "launcher/flags/spelling.h"
#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

MachineFacts machine(int cpus, int gpus) {
  MachineFacts facts;
  facts.cpus = cpus;
  facts.accelerators = gpus;
  facts.host = "a";
  return facts;
}

JobPlan plan_of(Options options, const MachineFacts& facts = machine(4, 0)) {
  if (options.program.empty()) options.program = {"./train", "--x"};
  auto plan = make_plan(options, facts);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message());
  return plan.ok() ? *plan : JobPlan{};
}
JobPlan planned(const Words& arguments, const MachineFacts& facts = machine(4, 0)) {
  return plan_of(good(arguments), facts);
}
std::string refused(const Words& arguments, const MachineFacts& facts = machine(4, 0)) {
  auto plan = make_plan(good(arguments), facts);
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : plan.error().message();
}

TEST(Plan, OneNodeTakesAFreePortAndSeveralTheUsualOne) {
  EXPECT_EQ(planned({"x"}).job.master, (Address{"127.0.0.1", 0}));
  EXPECT_EQ(planned({"x"}).serves, JobPlan::Serves::yes);
  const JobPlan second = planned({"--nnodes=2", "--node-rank=1", "--master-addr=h", "x"});
  EXPECT_EQ(second.job.master, (Address{"h", 29500}));
  EXPECT_EQ(second.serves, JobPlan::Serves::no);
}

TEST(Plan, TheEndpointIsTheMaster) {
  const struct {
    Words arguments;
    Address master;
  } cases[]{
      {{"--rdzv-endpoint=h:7"}, {"h", 7}},
      {{"--rdzv-backend=static", "--rdzv-endpoint=h:7", "--master-addr=m", "--master-port=8"}, {"h", 7}},
      {{"--rdzv-endpoint=h", "--master-port=8"}, {"h", 8}},
      {{"--rdzv-endpoint=h", "--nnodes=2"}, {"h", 29400}},
      {{"--rdzv-endpoint=h", "--nnodes=2", "--node-rank=0"}, {"h", 29500}},
      {{"--nnodes=1:2", "--master-addr=h"}, {"h", 29400}},
      {{"--nnodes=1:2", "--master-addr=h", "--master-port=5"}, {"h", 5}},
      {{"--rdzv-backend=c10d", "--rdzv-endpoint=h", "--nnodes=2", "--node-rank=0"}, {"h", 29400}},
      {{"--rdzv-backend=c10d", "--rdzv-endpoint=h:7", "--nnodes=2", "--node-rank=1"}, {"h", 7}},
      {{"--rdzv-backend=c10d"}, {"127.0.0.1", 0}},
      {{"--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"}, {"localhost", 0}},
      {{"--rdzv-endpoint=[::1]:7"}, {"::1", 7}},
      {{"--standalone", "--rdzv-endpoint=h:7"}, {"127.0.0.1", 0}},
      {{"--standalone", "--local-addr=10.0.0.1"}, {"10.0.0.1", 0}},
      {{"--nnodes=2", "--local-addr=10.0.0.1"}, {"127.0.0.1", 29500}},
  };
  for (const auto& one : cases) {
    Words arguments = one.arguments;
    arguments.emplace_back("x");
    EXPECT_EQ(planned(arguments).job.master, one.master) << arguments.front();
  }
  EXPECT_EQ(planned({"--local-addr=me", "x"}).node.host, "me");
}

TEST(Plan, UnsupportedCombinationsAreRejected) {
  EXPECT_EQ(refused({"--rdzv-backend=etcd-v2", "x"}),
            "--rdzv-backend=etcd-v2: etcd has removed this interface; use --rdzv-backend=etcd, which "
            "needs etcd 3.3 "
            "or later");
  EXPECT_EQ(planned({"--nnodes=2:2", "x"}).job.nnodes, 2);
}

TEST(Plan, AnElasticJobsNodesFindTheirRanks) {
  const JobPlan plan =
      planned({"--nnodes=2:4", "--spares=1", "--max-restarts=3", "--rdzv-endpoint=a,b:7", "x"});
  EXPECT_EQ(plan.node.node_rank, -1);
  EXPECT_EQ(plan.job.required_nodes(), 2);
  EXPECT_EQ(plan.job.nnodes, 4);
  EXPECT_EQ(plan.job.spares, 1);
  EXPECT_TRUE(plan.job.replaces);
  EXPECT_EQ(plan.job.endpoints, (std::vector<Address>{{"a", 29400}, {"b", 7}}));
  EXPECT_EQ(plan.serves, JobPlan::Serves::if_ours);
  EXPECT_EQ(planned({"--nnodes=2", "--rdzv-endpoint=a", "--rdzv-conf=is_host=1", "x"}).serves,
            JobPlan::Serves::yes);
  EXPECT_EQ(planned({"--nnodes=2", "--rdzv-endpoint=a", "--rdzv-conf=is_host=0", "x"}).serves,
            JobPlan::Serves::no);
  const JobPlan ranked = planned({"--nnodes=2", "--rdzv-backend=c10d", "--node-rank=1", "x"});
  EXPECT_EQ(ranked.node.node_rank, 1);
  EXPECT_EQ(ranked.serves, JobPlan::Serves::no);
}

TEST(Plan, StandaloneJobHasItsOwnId) {
  MachineFacts facts = machine(4, 0);
  facts.random = 0xfedc'ba98'7654;
  EXPECT_EQ(planned({"--standalone", "x"}, facts).job.id, "standalone-0000fedcba987654");
  EXPECT_EQ(planned({"--standalone", "--rdzv-id=mine", "x"}, facts).job.id, "mine");
  EXPECT_EQ(planned({"x"}, facts).job.id, "standalone-0000fedcba987654") << "as torchrun's, since 2.15";
  for (const Words& joined :
       {Words{"--nnodes=2", "x"}, Words{"--master-port=1", "x"}, Words{"--spares=1", "x"},
        Words{"--rdzv-endpoint=h", "x"}, Words{"--rdzv-backend=c10d", "x"}})
    EXPECT_EQ(planned(joined, facts).job.id, "none") << "torchrun's";
}

TEST(Plan, RanksThatThisNodeDoesNotHaveAreSaid) {
  EXPECT_EQ(planned({"--nproc-per-node=2", "-r", "9:1", "x"}).warnings,
            Words{"--redirects=9:1: there is no local rank 9 here; local ranks go from 0 to 1"});
  EXPECT_EQ(planned({"-t=1:3", "--local-ranks-filter=7", "x"}).warnings,
            (Words{"--tee=1:3: there is no local rank 1 here; the only one is 0",
                   "--local-ranks-filter=7: there is no local rank 7 here; the only one is 0"}));
  EXPECT_TRUE(
      planned({"--nproc-per-node=2", "-r", "1:1", "-t3", "--local-ranks-filter=0", "x"}).warnings.empty());
}

TEST(Plan, RankZeroServesTheStoreIfItsNodeIsKnown) {
  EXPECT_EQ(planned({"--worker-store=7", "x"}).node.worker_store, 7);
  EXPECT_EQ(planned({"--worker-store=7", "--nnodes=2", "--master-addr=h", "x"}).node.worker_store, 7);
  EXPECT_EQ(planned({"--worker-store=7", "--rdzv-backend=c10d", "x"}).node.worker_store, 7) << "one node";
  EXPECT_EQ(refused({"--worker-store=7", "--nnodes=1:2", "x"}),
            "--worker-store: the node of rank 0 is not known before the nodes meet; use "
            "--rdzv-backend=static, or "
            "leave it out");
  EXPECT_EQ(refused({"--worker-store=29500", "--nnodes=2", "x"}),
            "--worker-store=29500 is the port where the nodes meet; choose another port");
}

TEST(Plan, EtcdElectsTheServer) {
  const JobPlan plan =
      planned({"--nnodes=2:3", "--rdzv-backend=etcd", "--rdzv-endpoint=e,f:7", "--rdzv-id=j", "x"});
  EXPECT_TRUE(plan.job.elected);
  EXPECT_EQ(plan.job.endpoints, (std::vector<Address>{{"e", 2379}, {"f", 7}}));
  EXPECT_EQ(plan.etcd_key, "/dlaunch/j/leader");
  EXPECT_EQ(plan.serves, JobPlan::Serves::elected);
  EXPECT_EQ(plan.own, (Address{"", 0})) << "to be found";
  EXPECT_EQ(planned({"--nnodes=2", "--rdzv-backend=etcd", "--local-addr=h", "--master-port=8", "x"}).own,
            (Address{"h", 8}));
  EXPECT_EQ(planned({"--nnodes=2", "--rdzv-backend=etcd", "--rdzv-conf=etcd_prefix=/p", "x"}).etcd_key,
            "/p/none/leader");
  EXPECT_FALSE(planned({"--rdzv-backend=etcd", "x"}).job.elected) << "one node has nobody to elect";
  EXPECT_EQ(planned({"--rdzv-backend=etcd", "--rdzv-endpoint=e:7", "x"}).job.master,
            (Address{"127.0.0.1", 0}))
      << "and does not serve at etcd's address";
}

TEST(Plan, AJobOfFixedRanksDoesNotWaitForAReplacement) {
  EXPECT_FALSE(planned({"--nnodes=2", "--max-restarts=3", "x"}).job.replaces);
  EXPECT_TRUE(planned({"--nnodes=2", "--max-restarts=3", "--rdzv-endpoint=a", "x"}).job.replaces);
  EXPECT_FALSE(planned({"--nnodes=2", "--rdzv-endpoint=a", "x"}).job.replaces);
}

TEST(Plan, OneNodeHasNoNodeTimeout) {
  EXPECT_EQ(planned({"x"}).job.node_timeout, Duration(0));
  EXPECT_EQ(planned({"--nnodes=2", "x"}).job.node_timeout, std::chrono::seconds(5));
}

TEST(Plan, PythonScriptsAndModulesGetPython) {
  EXPECT_EQ(planned({"train.py", "--x"}).node.command, (Words{"python3", "-u", "train.py", "--x"}));
  EXPECT_EQ(planned({"train.py", "--x"}).script, "train.py");
  EXPECT_EQ(planned({"--no-python", "train.py", "--x"}).node.command, (Words{"train.py", "--x"}));
  EXPECT_EQ(planned({"-m", "pkg.train"}).node.command, (Words{"python3", "-u", "-m", "pkg.train"}));
  EXPECT_EQ(planned({"--run-path", "--no-python", "code"}).node.command, (Words{"python3", "-u", "code"}));
  EXPECT_EQ(planned({"--run-path", "code"}).script, "code");
  EXPECT_EQ(planned({"app.pyz"}).node.command, (Words{"python3", "-u", "app.pyz"}));
  MachineFacts facts = machine(4, 0);
  facts.program_is_python = true;
  EXPECT_EQ(planned({"code", "--x"}, facts).node.command, (Words{"python3", "-u", "code", "--x"}));
  EXPECT_EQ(planned({"code"}, facts).script, "code");
  EXPECT_EQ(planned({"--no-python", "code"}, facts).node.command, Words{"code"});
  EXPECT_EQ(planned({"-m", "code"}, facts).node.command, (Words{"python3", "-u", "-m", "code"}));
}

TEST(Plan, OldScriptsGetTheirLocalRankFirst) {
  EXPECT_EQ(planned({"--pass-local-rank", "train.py", "--x"}).node.command,
            (Words{"python3", "-u", "train.py", "--local-rank=${local_rank}", "--x"}));
  EXPECT_EQ(planned({"--pass-local-rank", "-m", "pkg"}).node.command,
            (Words{"python3", "-u", "-m", "pkg", "--local-rank=${local_rank}"}));
  EXPECT_EQ(planned({"--use-env", "x"}).node.command, Words{"x"});
}

TEST(Plan, CountsProcessorsAndGpus) {
  EXPECT_EQ(planned({"--nproc-per-node=auto", "x"}).node.slots, 4);
  EXPECT_EQ(planned({"--nproc-per-node=auto", "x"}, machine(4, 2)).node.slots, 2);
  EXPECT_EQ(planned({"--nproc-per-node=cpu", "x"}, machine(4, 2)).node.slots, 4);
  EXPECT_NE(refused({"--nproc-per-node=gpu", "x"}).find("no usable device"), std::string::npos);
  EXPECT_EQ(planned({"--nproc-per-node=xpu", "x"}, machine(4, 3)).node.slots, 3);
  EXPECT_EQ(refused({"--nproc-per-node=xpu", "x"}),
            "--nproc-per-node=xpu: this machine has no usable device of this kind; check ZE_AFFINITY_MASK, "
            "or use "
            "--nproc-per-node=auto");
}

TEST(Plan, AVirtualLocalRankSeesOneGpu) {
  const Words two{"--virtual-local-rank", "--nproc-per-node=2", "x"};
  MachineFacts facts = machine(4, 4);
  EXPECT_EQ(planned(two, facts).node.places[1].cuda_visible_devices, "1");
  EXPECT_TRUE(planned(two, facts).node.virtual_local_rank);
  facts.visible_gpus = "GPU-aa,5,6";
  EXPECT_EQ(planned(two, facts).node.places[0].cuda_visible_devices, "GPU-aa");
  EXPECT_EQ(planned(two, facts).node.places[1].cuda_visible_devices, "5");
  facts.visible_gpus = "5";
  EXPECT_EQ(refused(two, facts),
            "--virtual-local-rank: there are 2 workers, but CUDA_VISIBLE_DEVICES names 1 GPU; start fewer "
            "workers, or "
            "name more GPUs");
}

TEST(Plan, AVirtualLocalRankOnRocmSeesOneGpuByBothVariables) {
  const Words two{"--virtual-local-rank", "--nproc-per-node=2", "x"};
  MachineFacts facts = machine(4, 4);
  facts.visible_hip_gpus = "3,5";
  facts.visible_gpus = "0,1";
  const JobPlan plan = planned(two, facts);
  EXPECT_EQ(plan.node.places[1].cuda_visible_devices, "5");
  EXPECT_EQ(plan.node.places[1].hip_visible_devices, "5");
  facts.visible_hip_gpus = "3";
  EXPECT_NE(refused(two, facts).find("HIP_VISIBLE_DEVICES names 1 GPU;"), std::string::npos);
  facts.visible_hip_gpus = "";
  EXPECT_EQ(planned(two, facts).node.places[1].cuda_visible_devices, "1");
  EXPECT_EQ(planned(two, facts).node.places[1].hip_visible_devices, "");
}

TEST(Plan, BoundWorkersHaveTheirCpus) {
  MachineFacts facts = machine(4, 0);
  for (int i = 0; i < 4; ++i) facts.topology.cpus.push_back({i, i / 2 * 2, 0, 0, 0});
  const JobPlan plan = planned({"--bind=core", "--nproc-per-node=2", "x"}, facts);
  EXPECT_EQ(plan.node.places, (std::vector<agent::WorkerPlace>{{{0, 1}, 1, ""}, {{2, 3}, 1, ""}}));
  EXPECT_TRUE(planned({"--nproc-per-node=2", "x"}, facts).node.places.empty());
}

TEST(Plan, AWorkersMemoryIsNearItsCpus) {
  MachineFacts facts = machine(4, 0);
  for (int i = 0; i < 4; ++i) facts.topology.cpus.push_back({i, i, 0, i / 2, 0});
  facts.topology.knows_nodes = true;
  EXPECT_EQ(planned({"--bind=numa", "--nproc-per-node=2", "x"}, facts).node.places,
            (std::vector<agent::WorkerPlace>{{{0, 1}, 2, "", {0}}, {{2, 3}, 2, "", {1}}}));
}

TEST(Plan, WorkersThatShareCoresGetAShare) {
  MachineFacts facts = machine(8, 0);
  for (int i = 0; i < 8; ++i) facts.topology.cpus.push_back({i, i, 0, i / 4, 0});
  const auto cores = [&](const Words& arguments) {
    std::vector<int> out;
    for (const agent::WorkerPlace& place : planned(arguments, facts).node.places) out.push_back(place.cores);
    return out;
  };
  EXPECT_EQ(cores({"--bind=numa", "--nproc-per-node=2", "x"}), (std::vector<int>{4, 4}));
  EXPECT_EQ(cores({"--bind=numa", "--nproc-per-node=3", "x"}), (std::vector<int>{2, 2, 4}));
  EXPECT_EQ(cores({"--bind=numa", "--nproc-per-node=16", "x"}), std::vector<int>(16, 1));
  EXPECT_EQ(cores({"--bind=core", "--nproc-per-node=2", "x"}), (std::vector<int>{4, 4}));
}

TEST(Plan, SourceOfTheEndpointIsKnown) {
  const auto sources = [](const JobPlan& plan) { return plan.host_from + " " + plan.port_from; };
  EXPECT_EQ(sources(planned({"x"})), "--master-addr --master-port");
  EXPECT_EQ(sources(planned({"--local-addr=h", "x"})), "--local-addr --master-port");
  EXPECT_EQ(sources(planned({"--local-addr=h", "--nnodes=2", "x"})), "--master-addr --master-port");
  EXPECT_EQ(sources(planned({"--rdzv-endpoint=h:1", "x"})), "--rdzv-endpoint --rdzv-endpoint");
  EXPECT_EQ(sources(planned({"--rdzv-endpoint=h", "x"})), "--rdzv-endpoint --master-port");
}

TEST(Plan, DefaultsOfTheEnvironmentCanBeLeft) {
  EXPECT_FALSE(inherited_environment(good({"x"}), {}).has_omp_num_threads);
  EXPECT_TRUE(inherited_environment(good({"x"}), {{"OMP_NUM_THREADS", "3"}}).has_omp_num_threads);
  EXPECT_FALSE(inherited_environment(good({"x"}), {{"OMP_NUM_THREADS", "3"}}).has_gloo_store_v2);
  EXPECT_TRUE(inherited_environment(good({"--no-env-defaults", "x"}), {}).has_gloo_sequence_number);
}

TEST(Plan, AutomaticThreadsAreDlaunchsToCount) {
  const EnvironmentMap asked{{"OMP_NUM_THREADS", "auto"}};
  EXPECT_FALSE(inherited_environment(good({"x"}), asked).has_omp_num_threads);
  EXPECT_TRUE(inherited_environment(good({"x"}), asked).omp_num_threads_is_auto);
  EXPECT_FALSE(inherited_environment(good({"--no-env-defaults", "x"}), asked).has_omp_num_threads)
      << "it is set";
  EXPECT_FALSE(inherited_environment(good({"x"}), {{"OMP_NUM_THREADS", "3"}}).omp_num_threads_is_auto);
  EXPECT_FALSE(inherited_environment(good({"x"}), {}).omp_num_threads_is_auto);
  EXPECT_EQ(planned({"x"}, machine(6, 0)).node.cpus, 6);
}

TEST(Spelling, FindsTheNearestWordIfItIsNear) {
  const std::vector<std::string> words{"--nnodes", "--node-rank", "--max-restarts"};
  EXPECT_EQ(nearest("--nndoes", words), "--nnodes");
  EXPECT_EQ(nearest("--node_rank", words), "--node-rank");
  EXPECT_EQ(nearest("--something-else", words), "");
}

TEST(Spelling, PartsOfAWordMeanIt) {
  const std::vector<std::string> words{"nproc-per-node", "node-rank", "local-rank", "role"};
  EXPECT_EQ(likely("rank", words), (Words{"node-rank", "local-rank"}));
  EXPECT_EQ(likely("nproc", words), Words{"nproc-per-node"});
  EXPECT_EQ(likely("nprocs", words), Words{"nproc-per-node"});
  EXPECT_EQ(likely("rol", words), Words{"role"}) << "near";
  EXPECT_TRUE(likely("de", words).empty());
  EXPECT_TRUE(likely("else", words).empty());
}

TEST(Plan, EachLimitIsItsOwnOptions) {
  using std::chrono::seconds;
  const JobPlan plan =
      planned({"--nnodes=2:4", "--rdzv-endpoint=a", "--join-timeout=61", "--stop-timeout=62",
               "--hang-timeout=63", "--hang-note=66", "--last-call-timeout=64", "--node-timeout=65", "x"});
  EXPECT_EQ(plan.job.join_timeout, seconds(61));
  EXPECT_EQ(plan.job.stop_timeout.usual, seconds(62));
  EXPECT_EQ(plan.job.hang_timeout, seconds(63));
  EXPECT_EQ(plan.job.hang_note, seconds(66));
  EXPECT_EQ(planned({"x"}).job.hang_note, seconds(60));
  EXPECT_EQ(plan.job.last_call, seconds(64));
  EXPECT_EQ(plan.job.node_timeout, seconds(65));
}

TEST(Plan, PmiIsOfferedToProgramsThatNeedIt) {
  using agent::MpiStart;
  MachineFacts facts = machine(4, 0);
  EXPECT_EQ(planned({"x"}, facts).job.mpi, MpiStart::none);
  EXPECT_EQ(planned({"--mpi=pmi", "x"}, facts).job.mpi, MpiStart::pmi);
  facts.mpi_library = MpiLibrary::mpich;
  EXPECT_EQ(planned({"x"}, facts).job.mpi, MpiStart::pmi);
  EXPECT_EQ(planned({"--mpi=none", "x"}, facts).job.mpi, MpiStart::none);
}

TEST(Plan, PmixIsOfferedToProgramsThatNeedIt) {
  using agent::MpiStart;
  const Words two{"--nproc-per-node=2", "./x"};
  MachineFacts facts = machine(4, 0);
  facts.pmix_program = "/lib/dlaunch-pmix";
  EXPECT_EQ(planned(two, facts).job.mpi, MpiStart::none);
  EXPECT_EQ(planned({"--mpi=pmix", "./x"}, facts).job.mpi, MpiStart::pmix);
  facts.mpi_library = MpiLibrary::open_mpi;
  EXPECT_EQ(planned(two, facts).job.mpi, MpiStart::pmix);
  EXPECT_EQ(planned(two, facts).node.pmix_program, "/lib/dlaunch-pmix");
  EXPECT_TRUE(planned(two, facts).warnings.empty());
  EXPECT_EQ(planned({"./x"}, facts).job.mpi, MpiStart::none) << "it is one rank";
  EXPECT_EQ(planned({"--nproc-per-node=2", "--mpi=none", "./x"}, facts).job.mpi, MpiStart::none);
  facts.has_mpi_world = true;
  EXPECT_EQ(planned(two, facts).job.mpi, MpiStart::none) << "an mpirun has started this dlaunch";
}

TEST(Plan, PmixThatWasNotBuiltIsRefused) {
  EXPECT_EQ(refused({"--mpi=pmix", "./x"}),
            "--mpi=pmix is not available: there is no dlaunch-pmix in dlaunch's library folder; build "
            "dlaunch where "
            "libpmix is (Debian: libpmix-dev), or start the program with mpirun");
}

TEST(Plan, RanksThatMpiWillNotFindAreReported) {
  MachineFacts facts = machine(4, 0);
  facts.mpi_library = MpiLibrary::open_mpi;
  const Words two{"--nproc-per-node=2", "./x"};
  ASSERT_EQ(planned(two, facts).warnings.size(), 1U);
  EXPECT_EQ(planned(two, facts).warnings.front(),
            "./x is linked with Open MPI, whose ranks find each other with dlaunch-pmix, which is not in "
            "dlaunch's library folder: "
            "each of its processes will be rank 0 of 1. Start it with mpirun -n N ./x, or build dlaunch "
            "where libpmix is "
            "(Debian: libpmix-dev)");
  EXPECT_TRUE(planned({"./x"}, facts).warnings.empty()) << "it is one rank";
  EXPECT_TRUE(planned({"--nproc-per-node=2", "--mpi=none", "./x"}, facts).warnings.empty());
  facts.has_mpi_world = true;
  EXPECT_TRUE(planned(two, facts).warnings.empty()) << "an mpirun has started this dlaunch";
}

}  // namespace
}  // namespace dlaunch::launcher
