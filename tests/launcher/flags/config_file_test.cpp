#include "launcher/flags/config_file.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

TEST(Options, AFileHasFlagsAsKeys) {
  const auto options = good({"--config", "j", "x"}, {}, {{"j", R"({
      // comments are allowed
      "nproc_per_node": 4, "monitor-interval": 0.5, "standalone": true, "verbose": false,
      "local-ranks-filter": [0, 2], "tee": "0:3", "role": null})"}});
  EXPECT_EQ(options.node.slots, 4);
  EXPECT_TRUE(options.standalone);
  EXPECT_FALSE(options.verbose);
  EXPECT_EQ(options.log.local_ranks_filter, (std::vector<int>{0, 2}));
  EXPECT_EQ(options.log.tee.of(0), agent::Streams::both);
  EXPECT_EQ(options.log.tee.of(1), agent::Streams::none);
  EXPECT_EQ(options.node.role, "default");

  const auto refused = [](const std::string& text) { return bad({"--config=j", "x"}, {}, {{"j", text}}); };
  EXPECT_EQ(refused(R"({"nnode": 2})"), "'nnode' in j is not the name of a flag; did you mean nnodes?");
  EXPECT_EQ(refused(R"({"dry-run": true})"),
            "'dry-run' in j can only be given on the command line; see dlaunch --help");
  EXPECT_EQ(refused(R"({"nnodes": "many"})"), "nnodes in j: 'many' is not a number; see dlaunch --help");
  EXPECT_EQ(refused(R"({"nnodes": {"min": 1}})"),
            "nnodes in j must be a string, a number, true, false, or a list of these; not object");
  EXPECT_EQ(
      refused(R"({"tee": [[1]]})"),
      "tee in j must be a string, a number, true, false, or a list of these; not a list of other things");
  EXPECT_EQ(refused(R"({"module": "perhaps"})"),
            "module in j: 'perhaps' is neither true nor false; write 1, true or yes; or 0, false or no");
  EXPECT_EQ(refused(R"({"log-dir": "a", "log_dir": "b"})"),
            "log_dir in j and log-dir in j set the same flag; see dlaunch --help");
  EXPECT_EQ(refused("[1]"), "j must contain a JSON object whose keys are flag names; see dlaunch --help");
  EXPECT_EQ(refused(R"({"nnodes": 1e999})"), "j is not JSON: number overflow parsing '1e999'");
  EXPECT_EQ(refused("{").find("j is not JSON: parse error at line 1, column 2"), 0U) << refused("{");
}

TEST(ConfigFile, EachSettingNamesItsPlaceInTheFile) {
  const auto settings = settings_from_json(R"({"nproc_per_node": 4, "export": ["A=1", "B"]})", "job.json");
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->size(), 2U);
  EXPECT_EQ(settings->at("nproc-per-node"), (Setting{"4", Origin::config, "nproc_per_node in job.json"}));
  EXPECT_EQ(settings->at("export").value, "A=1\nB") << "each value of a flag that repeats is a line";
}

TEST(ConfigFile, ItCannotNameAnotherFile) {
  EXPECT_EQ(settings_from_json(R"({"config": "x"})", "j").error().message(),
            "'config' in j can only be given on the command line; see dlaunch --help");
}

TEST(ConfigFile, TextThatIsNoJsonIsTheUsersMistake) {
  for (const char* wrong : {"", "nnodes=2", "{\"nnodes\": \"\xff\"}", "{} {}"}) {
    const auto settings = settings_from_json(wrong, "j");
    ASSERT_FALSE(settings.ok()) << wrong;
    EXPECT_EQ(settings.error().kind, ErrorKind::invalid);
    EXPECT_TRUE(settings.error().message().starts_with("j is not JSON: ")) << settings.error().message();
  }
}

}  // namespace
}  // namespace dlaunch::launcher
