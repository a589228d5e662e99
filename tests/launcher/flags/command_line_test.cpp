#include "launcher/flags/command_line.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

TEST(Flags, ShortForms) {
  EXPECT_EQ(good({"-t3", "x"}).log.tee.all, agent::Streams::both);
  EXPECT_EQ(good({"-t", "1", "x"}).log.tee.all, agent::Streams::out);
  EXPECT_EQ(good({"-t=2", "x"}).log.tee.all, agent::Streams::err);
  EXPECT_EQ(good({"-r3", "x"}).log.redirects.all, agent::Streams::both);
  EXPECT_TRUE(good({"-m", "x"}).module);
  const Options both = good({"-mr2", "x"});
  EXPECT_TRUE(both.module);
  EXPECT_EQ(both.log.redirects.all, agent::Streams::err);
  EXPECT_TRUE(std::holds_alternative<PrintAndExit>(*parse({"-h"})));
}

TEST(Flags, AWordMayBeAbbreviatedAsTorchrunAllows) {
  EXPECT_TRUE(good({"--stand", "x"}).standalone);
  EXPECT_EQ(good({"--nn=3", "x"}).job.nnodes, 3);
  EXPECT_EQ(good({"--nnode", "3", "x"}).job.nnodes, 3);
  EXPECT_EQ(good({"--red", "3", "x"}).log.redirects.all, agent::Streams::both);
  EXPECT_EQ(good({"--te=3", "x"}).log.tee.all, agent::Streams::both);
  EXPECT_TRUE(good({"--mod", "x"}).module);
  EXPECT_EQ(good({"--ro", "r", "x"}).node.role, "r");
  EXPECT_EQ(bad({"--nproc", "2", "x"}), "unknown option --nproc; did you mean --nproc-per-node?");
  EXPECT_EQ(bad({"--master", "2", "x"}),
            "--master could mean --master-addr, --master-port; see dlaunch --help");
}

TEST(Flags, TheLastOfSeveralWins) {
  EXPECT_EQ(good({"--nnodes=2", "--nnodes=3", "x"}).job.nnodes, 3);
  EXPECT_EQ(good({"--shutdown-timeout=2", "--stop-timeout=3", "x"}).job.stop_timeout.usual,
            std::chrono::seconds(3));
  EXPECT_EQ(good({"--stop-timeout=3", "--shutdown-timeout=2", "x"}).job.stop_timeout.usual,
            std::chrono::seconds(2));
  EXPECT_FALSE(good({"--pass-local-rank", "--use-env", "x"}).pass_local_rank);
  EXPECT_FALSE(good({"--pass-local-rank", "--use-env=True", "x"}).pass_local_rank);
  EXPECT_FALSE(good({"--pass-local-rank", "--use_env=true", "x"}).pass_local_rank);
  EXPECT_TRUE(good({"--use-env=False", "x"}).pass_local_rank);
  EXPECT_TRUE(good({"--use-env", "--use-env=false", "x"}).pass_local_rank);
  EXPECT_TRUE(good({"--use-env", "--pass-local-rank", "x"}).pass_local_rank);
}

TEST(Flags, AnEmptyValueOfTheCommandLineMeansTheDefault) {
  EXPECT_TRUE(good({"--rdzv-endpoint=", "--rdzv-conf=", "--local-ranks-filter=", "x"}).endpoints.empty());
  EXPECT_TRUE(good({"--rdzv-endpoint", "", "x"}).endpoints.empty());
  EXPECT_EQ(good({"--rdzv-endpoint", "", "x"}).program, Words{"x"});
}

TEST(Options, EverythingAfterTheProgramIsItsOwn) {
  EXPECT_EQ(good({"./train", "--nnodes=9", "--", "--help"}).program,
            (Words{"./train", "--nnodes=9", "--", "--help"}));
  EXPECT_EQ(good({"--max-restarts=1", "--", "--odd-name", "x"}).program, (Words{"--odd-name", "x"}));
}

TEST(Options, AVariableIsNotLookedAtForHelp) {
  EXPECT_TRUE(parse({"--help"}, {{"PET_STANDALONE", "maybe"}}).ok());
}

TEST(CommandLine, SettingsNameTheFlagAsItWasTyped) {
  const auto line = parse_command_line({"--nproc_per_node", "2", "-t3", "./train", "-t1"});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->settings.at("nproc-per-node").value, "2");
  EXPECT_EQ(line->settings.at("nproc-per-node").origin, Origin::command_line);
  EXPECT_EQ(line->settings.at("tee").value, "3");
  EXPECT_EQ(line->program, (Words{"./train", "-t1"}));
  EXPECT_FALSE(line->help || line->version || line->completion);
}

TEST(CommandLine, QuestionsNeedNoProgram) {
  EXPECT_TRUE(parse_command_line({"--help"})->help);
  EXPECT_TRUE(parse_command_line({"--version"})->version);
  EXPECT_EQ(parse_command_line({"--print-completion=bash"})->completion, "bash");
  EXPECT_TRUE(parse_command_line({})->program.empty());
}

}  // namespace
}  // namespace dlaunch::launcher
