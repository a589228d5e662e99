#include "launcher/options/options_from_settings.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

TEST(Options, StandaloneOverridesTheRest) {
  const Options options = good({"--standalone", "--nnodes=2", "--node-rank=1", "--master-port=1",
                                "--rdzv-backend=etcd", "--rdzv-endpoint=h:1", "x"});
  EXPECT_EQ(options.job.nnodes, 1);
  EXPECT_FALSE(options.node_rank);
  EXPECT_FALSE(options.master_port);
  EXPECT_TRUE(options.endpoints.empty());
  EXPECT_EQ(options.backend, Options::Backend::fixed);
}

TEST(Options, BackendFollowsFromOtherOptions) {
  const struct {
    Words arguments;
    Options::Backend backend;
  } cases[]{
      {{"x"}, Options::Backend::fixed},
      {{"--nnodes=2", "x"}, Options::Backend::fixed},
      {{"--nnodes=2", "--rdzv-endpoint=h", "x"}, Options::Backend::c10d},
      {{"--nnodes=2", "--rdzv-endpoint=h", "--node-rank=1", "x"}, Options::Backend::fixed},
      {{"--nnodes=2", "--rdzv-backend=static", "--rdzv-endpoint=h", "x"}, Options::Backend::fixed},
      {{"--nnodes=1:2", "x"}, Options::Backend::c10d},
      {{"--nnodes=2", "--spares=1", "x"}, Options::Backend::c10d},
      {{"--nnodes=3", "--rdzv-endpoint=a,b", "x"}, Options::Backend::c10d},
      {{"--nnodes=1:2", "--standalone", "x"}, Options::Backend::fixed},
  };
  for (const auto& one : cases) EXPECT_EQ(good(one.arguments).backend, one.backend) << one.arguments.front();
}

Settings set(const std::map<std::string, std::string>& flags) {
  Settings out;
  for (const auto& [flag, value] : flags) out[flag] = {value, Origin::config, flag + " in job.json"};
  return out;
}

TEST(OptionsFromSettings, TheErrorNamesWhereTheValueIs) {
  const auto options = options_from_settings(set({{"nnodes", "many"}}));
  ASSERT_FALSE(options.ok());
  EXPECT_EQ(options.error().message(), "nnodes in job.json: 'many' is not a number; see dlaunch --help");
}

TEST(OptionsFromSettings, TheLimitsThemselvesAreAccepted) {
  EXPECT_TRUE(options_from_settings(set({{"nnodes", "65536"}, {"nproc-per-node", "65536"}})).ok());
  EXPECT_FALSE(options_from_settings(set({{"nnodes", "65537"}})).ok());
  EXPECT_FALSE(options_from_settings(set({{"nproc-per-node", "65537"}})).ok());
  EXPECT_TRUE(options_from_settings(set({{"nnodes", "3:3"}})).ok());
}

TEST(OptionsFromSettings, EndpointsAreLimited) {
  std::string sixteen = "h0";
  for (int i = 1; i < 16; ++i) sixteen += ",h" + std::to_string(i);
  const auto options = options_from_settings(set({{"nnodes", "2"}, {"rdzv-endpoint", sixteen}}));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->endpoints.size(), 16U);
  EXPECT_FALSE(options_from_settings(set({{"nnodes", "2"}, {"rdzv-endpoint", sixteen + ",h16"}})).ok());
}

TEST(OptionsFromSettings, EachExportIsANameOrAnAssignment) {
  const auto options = options_from_settings(set({{"export", "A=1 2\n\n_B\nC="}}));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->exports, (Words{"A=1 2", "_B", "C="}));
  for (const char* wrong : {"1A=x", "A-B", "=x", "A\nB C"})
    EXPECT_FALSE(options_from_settings(set({{"export", wrong}})).ok()) << wrong;
}

TEST(OptionsFromSettings, TheCommandOfSshIsSplitLikeAShellDoes) {
  EXPECT_EQ(options_from_settings(set({{"ssh", "ssh -o 'A B'"}}))->ssh, (Words{"ssh", "-o", "A B"}));
  EXPECT_EQ(options_from_settings(set({{"ssh", ""}}))->ssh, Words{"ssh"});
  EXPECT_FALSE(options_from_settings(set({{"ssh", "ssh 'x"}})).ok());
  EXPECT_FALSE(options_from_settings(set({{"ssh", "  "}})).ok());
}

}  // namespace
}  // namespace dlaunch::launcher
