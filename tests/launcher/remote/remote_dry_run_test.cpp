// The dry run of each named host.

#include "launcher/remote/remote_dry_run.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

// The first host is this machine, which has four cores.
std::string printed(const Words& arguments, const EnvironmentMap& environment = {}) {
  const Options options = good(arguments, environment);
  RemoteFacts scheduler_env;
  scheduler_env.executable = "/opt/dlaunch";
  scheduler_env.folder = "/work";
  auto hosts = chosen_hosts(options, *parse_hosts(options.hosts, "--hosts"));
  EXPECT_TRUE(hosts.ok());
  scheduler_env.here.assign(hosts->size(), false);
  scheduler_env.here.front() = true;
  scheduler_env.terms = {"k7", false, false, false};
  auto plan = make_remote_plan(options, *hosts, scheduler_env);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message());
  const auto facts = [](const Options&, bool here) {
    MachineFacts machine;
    machine.cpus = here ? 4 : 1;
    for (int i = 0; i < 4 && here; ++i) machine.topology.cpus.push_back({i, i, 0, 0, 0});
    return machine;
  };
  auto text = dry_run_on_hosts(*plan, environment, environment, facts);
  EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message());
  return text.ok() ? *text : "";
}

// The part about one node.
std::string of(const std::string& text, int node) {
  const std::size_t begin = text.find("\nnode " + std::to_string(node) + ", ");
  return begin == std::string::npos ? "" : text.substr(begin, text.find("\nnode ", begin + 1) - begin);
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(RemoteDryRun, EachHostsRanksFollowThoseBeforeIt) {
  const std::string text =
      printed({"--hosts=a:2,b:3,c:1", "--bind=core", "--rdzv-id=j", "./x", "${local_rank}"});
  EXPECT_TRUE(text.starts_with("job j: 3 hosts\nnode 0, a (this machine):\n")) << text;
  EXPECT_TRUE(has(of(text, 0), "  rank 1:\n    command: ./x 1\n    cpus: 2,3 (2 cores)\n")) << text;
  const std::string second = of(text, 1);
  EXPECT_TRUE(has(second, "\n  its standard input:\n    {\n    cd /work ")) << second;
  EXPECT_TRUE(has(second, "  not known here: its other variables, its CPUs and GPUs")) << second;
  EXPECT_TRUE(
      has(second, "    WORLD_SIZE=6\n    LOCAL_WORLD_SIZE=3\n    GROUP_RANK=1\n    GROUP_WORLD_SIZE=3\n"))
      << second;
  EXPECT_TRUE(has(second, "    OMP_NUM_THREADS=(found on that machine)\n")) << second;
  EXPECT_TRUE(has(second, "  rank 2:\n    command: ./x 0\n    cpus: bound as that machine allows\n"))
      << second;
  EXPECT_TRUE(has(second, "  rank 4:\n")) << second;
  EXPECT_TRUE(has(of(text, 2), "    RANK=5\n")) << text;
}

TEST(RemoteDryRun, AutomaticThreadsAreKnownThereAlone) {
  const std::string text = printed({"--hosts=a:2,b:2", "./x"}, {{"OMP_NUM_THREADS", "auto"}});
  EXPECT_TRUE(has(of(text, 0), "    OMP_NUM_THREADS=2\n")) << text;
  EXPECT_TRUE(has(of(text, 1), "    OMP_NUM_THREADS=(found on that machine)\n")) << text;
}

TEST(RemoteDryRun, ValuesThatAHostDecidesAreNotShownAsFacts) {
  const std::string text = printed({"--hosts=a,b,c", "--nproc-per-node=auto", "./x"});
  EXPECT_TRUE(has(of(text, 0), "  rank 3:\n")) << text;
  EXPECT_TRUE(has(of(text, 0), "    WORLD_SIZE=(assigned when the nodes meet)\n")) << text;
  EXPECT_TRUE(has(of(text, 1), "  workers: as many as that host counts (--nproc-per-node=auto);")) << text;
  EXPECT_FALSE(has(of(text, 1), "rank 4")) << text;
}

}  // namespace
}  // namespace dlaunch::launcher
