#include "launcher/flags/settings.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

TEST(Options, SwitchesInVariables) {
  for (const char* on : {"1", "true", "TRUE", "yes", "on"})
    EXPECT_TRUE(good({"x"}, {{"PET_STANDALONE", on}}).standalone) << on;
  for (const char* off : {"0", "false", "no", "off", ""})
    EXPECT_FALSE(good({"x"}, {{"PET_STANDALONE", off}}).standalone) << off;
  EXPECT_FALSE(good({"x"}, {{"PET_STANDALONE", "1"}, {"DLAUNCH_STANDALONE", "0"}}).standalone);
  EXPECT_FALSE(good({"--use-env", "x"}, {{"DLAUNCH_PASS_LOCAL_RANK", "1"}}).pass_local_rank);
  EXPECT_EQ(bad({"x"}, {{"PET_STANDALONE", "maybe"}}),
            "PET_STANDALONE: 'maybe' is neither true nor false; write 1, true or yes; or 0, false or no");
}

TEST(Options, AVariableThatIsMistypedIsSaid) {
  const auto said = [](const char* variable) { return good({"x"}, {{variable, "3"}}).warnings; };
  EXPECT_EQ(said("DLAUNCH_NPROC"),
            Words{"DLAUNCH_NPROC has no effect; did you mean DLAUNCH_NPROC_PER_NODE?"});
  EXPECT_EQ(said("PET_NPROC_PER_NOD"),
            Words{"PET_NPROC_PER_NOD has no effect; did you mean PET_NPROC_PER_NODE?"});
  EXPECT_EQ(said("PET_JOIN_TIMEOUT"),
            Words{"PET_JOIN_TIMEOUT has no effect; did you mean DLAUNCH_JOIN_TIMEOUT?"});
  for (const char* fine :
       {"DLAUNCH_TOKEN", "DLAUNCH_VERSION", "DLAUNCH_JOB_ID", "DLAUNCH_ROUND", "DLAUNCH_FENCING_TOKEN",
        "DLAUNCH_WORKER_PAGE", "DLAUNCH_STORE_KEY_FILE", "DLAUNCH_BACKEND_PATH", "DLAUNCH_CPP_LOG_LEVEL",
        "DLAUNCH_DISTRIBUTED_DEBUG", "DLAUNCH_SOCKET_IFNAME", "DLAUNCH_TRACE", "DLAUNCH_NNODES", "PET_NNODES",
        "MY_NPROC"})
    EXPECT_TRUE(said(fine).empty()) << fine;
}

TEST(Settings, AnAliasSetsTheFlagThatItMeans) {
  const auto settings = settings_from({{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "3"}});
  ASSERT_TRUE(settings.ok());
  ASSERT_NE(find(*settings, "stop-timeout"), nullptr);
  EXPECT_EQ(*find(*settings, "stop-timeout"),
            (Setting{"3", Origin::environment, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"}));
  EXPECT_EQ(find(*settings, "shutdown-timeout"), nullptr);
}

TEST(Settings, ANegatingSwitchIsStoredAsItsOpposite) {
  EXPECT_EQ(make_setting(*find_flag("use-env"), "true", Origin::command_line, "--use-env")->value, "false");
  EXPECT_EQ(make_setting(*find_flag("standalone"), "yes", Origin::config, "x")->value, "true");
}

TEST(Settings, WeakerOnesFillOnlyWhatIsOpen) {
  Settings settings{{"nnodes", {"2", Origin::command_line, "--nnodes"}}};
  add_weaker(settings, {{"nnodes", {"3", Origin::config, "f"}}, {"role", {"r", Origin::config, "f"}}});
  EXPECT_EQ(settings.at("nnodes").value, "2");
  EXPECT_EQ(settings.at("role").origin, Origin::config);
}

}  // namespace
}  // namespace dlaunch::launcher
