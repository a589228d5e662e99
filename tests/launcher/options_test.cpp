#include "launcher/options.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

Options good(const std::vector<std::string>& arguments) {
  auto parsed = parse_options(arguments);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message());
  return parsed.ok() && std::holds_alternative<Options>(*parsed) ? std::get<Options>(*parsed) : Options{};
}
std::string bad(const std::vector<std::string>& arguments) {
  auto parsed = parse_options(arguments);
  EXPECT_FALSE(parsed.ok());
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
  return parsed.error().message();
}

TEST(Options, DashesUnderscoresAndBothFormsOfValues) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"--nproc-per-node=4", "x"},
                                                                     {"--nproc_per_node=4", "x"},
                                                                     {"--nproc-per-node", "4", "x"},
                                                                     {"--nproc_per_node", "4", "x"}}) {
    EXPECT_EQ(good(arguments).slots, 4);
  }
}

TEST(Options, EverythingAfterTheProgramIsItsOwn) {
  EXPECT_EQ(good({"./train", "--nnodes=9", "--", "--help"}).program,
            (std::vector<std::string>{"./train", "--nnodes=9", "--", "--help"}));
  EXPECT_EQ(good({"--max-restarts=1", "--", "--odd-name", "x"}).program,
            (std::vector<std::string>{"--odd-name", "x"}));
}

TEST(Options, DefaultsAreTorchruns) {
  const Options options = good({"x"});
  EXPECT_EQ(options.slots, 1);
  EXPECT_EQ(options.nnodes, 1);
  EXPECT_EQ(options.max_restarts, 0);
  EXPECT_FALSE(options.master_port);
}

TEST(Options, StandaloneOverridesTheRest) {
  const Options options = good({"--standalone", "--nnodes=2", "--node-rank=1", "--master-port=1", "x"});
  EXPECT_EQ(options.nnodes, 1);
  EXPECT_EQ(options.node_rank, 0);
  EXPECT_FALSE(options.master_port);
}

TEST(Options, EveryMistakeIsNamed) {
  EXPECT_EQ(bad({}), "no program given; say what to start: dlaunch [options] program [arguments ...]");
  EXPECT_EQ(bad({"--nnode=2", "x"}), "unknown option --nnode; did you mean --nnodes?");
  EXPECT_EQ(bad({"--nonsense", "x"}), "unknown option --nonsense; see dlaunch --help");
  EXPECT_EQ(bad({"--nnodes"}), "--nnodes needs a value; see dlaunch --help");
  EXPECT_EQ(bad({"--nnodes=2", "--node-rank=2", "x"}),
            "--node-rank=2 is outside --nnodes=2; node ranks go from 0 to 1");
  EXPECT_EQ(bad({"--node-rank=1", "x"}),
            "--node-rank=1 is outside --nnodes=1; say how many nodes there are with --nnodes");
  EXPECT_EQ(bad({"--nproc-per-node=0", "x"}),
            "--nproc-per-node: 0 is out of range; give a number from 1 to 65536, auto, cpu or gpu");
  EXPECT_EQ(bad({"--max-restarts=1x", "x"}), "--max-restarts: '1x' is not a number; see dlaunch --help");
  EXPECT_EQ(bad({"--max-restarts=99999999999999", "x"}),
            "--max-restarts: '99999999999999' is not a number; see dlaunch --help");
  EXPECT_EQ(bad({"--join-timeout=nan", "x"}),
            "--join-timeout: 'nan' is not a number of seconds; see dlaunch --help");
  EXPECT_EQ(bad({"--module", "--no-python", "x"}),
            "--module and --no-python exclude each other; see dlaunch --help");
  EXPECT_NE(bad({"--nnodes=1:4", "x"}).find("not supported"), std::string::npos);
  EXPECT_EQ(good({"--nnodes=2:2", "x"}).nnodes, 2);
}

TEST(Options, HelpNamesEveryOption) {
  auto parsed = parse_options({"--help"});
  ASSERT_TRUE(parsed.ok());
  const std::string text = std::get<JustPrint>(*parsed).text;
  for (const char* name :
       {"--nproc-per-node", "--nnodes", "--node-rank", "--master-addr", "--master-port", "--max-restarts",
        "--standalone", "--join-timeout", "--stop-timeout", "--no-python", "--module", "--version"}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace dlaunch::launcher
