#include "launcher/options/rdzv_conf.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

Result<RdzvConf> parsed(const std::string& value) {
  return parse_rdzv_conf({value, Origin::command_line, "--rdzv-conf"});
}
std::string why_not(const std::string& value) {
  const auto conf = parsed(value);
  EXPECT_FALSE(conf.ok()) << value;
  return conf ? "" : conf.error().message();
}

TEST(RdzvConf, AKeyThatIsNotGivenIsOpen) {
  const auto conf = parsed("");
  ASSERT_TRUE(conf.ok());
  EXPECT_FALSE(conf->join_timeout || conf->last_call || conf->node_timeout || conf->hosts_endpoint);
  EXPECT_EQ(conf->etcd_prefix, "");
}

TEST(RdzvConf, JoinTimeoutGoesBeforeTimeout) {
  EXPECT_EQ(parsed("timeout=8")->join_timeout, std::chrono::seconds(8));
  EXPECT_EQ(parsed("join_timeout=7,timeout=8")->join_timeout, std::chrono::seconds(7));
  EXPECT_EQ(parsed("timeout=8,join_timeout=7")->join_timeout, std::chrono::seconds(7));
  EXPECT_EQ(parsed("timeout=8,timeout=9")->join_timeout, std::chrono::seconds(9))
      << "the last of a key counts";
}

TEST(RdzvConf, ANodeIsLostAfterItsKeepAliveAttempts) {
  EXPECT_EQ(parsed("keep_alive_interval=2,keep_alive_max_attempt=4")->node_timeout, std::chrono::seconds(8));
  EXPECT_EQ(parsed("keep_alive_interval=2")->node_timeout, std::chrono::seconds(6)) << "torchrun's three";
  EXPECT_EQ(parsed("keep_alive_max_attempt=2")->node_timeout, std::chrono::seconds(10)) << "torchrun's 5 s";
  EXPECT_NE(why_not("keep_alive_max_attempt=0").find("0 is out of range"), std::string::npos);
}

TEST(RdzvConf, OtherKeysOfTorchrun) {
  const auto conf = parsed("is_host=False,last_call_timeout=0.5,etcd_prefix=/x,protocol=http");
  ASSERT_TRUE(conf.ok());
  EXPECT_EQ(conf->hosts_endpoint, false);
  EXPECT_EQ(conf->last_call, std::chrono::milliseconds(500));
  EXPECT_EQ(conf->etcd_prefix, "/x");
  EXPECT_TRUE(conf->warnings.empty());
}

TEST(RdzvConf, AKeyWithoutEffectIsAWarning) {
  EXPECT_EQ(parsed("join_timeuot=3")->warnings,
            Words{"--rdzv-conf: the unknown key 'join_timeuot' has no effect; did you mean join_timeout?"});
  EXPECT_EQ(parsed("zzz=3")->warnings, Words{"--rdzv-conf: the unknown key 'zzz' has no effect"});
  EXPECT_EQ(
      parsed("read_timeout=1,store_type=tcp")->warnings,
      (Words{"--rdzv-conf: read_timeout has no effect here", "--rdzv-conf: store_type has no effect here"}));
}

TEST(RdzvConf, WhatDlaunchCannotDoIsAnError) {
  EXPECT_TRUE(why_not("store_type=file").starts_with("--rdzv-conf: store_type=file: "));
  EXPECT_TRUE(
      why_not("protocol=https").starts_with("--rdzv-conf: protocol: dlaunch reaches etcd by http only"));
  for (const char* key : {"ssl_cert", "ssl_cert_key", "ca_cert"})
    EXPECT_NE(why_not(std::string(key) + "=f").find("without TLS only"), std::string::npos) << key;
  for (const char* wrong : {"timeout", "timeout=", "=3", "timeout=3,", "timeout=-1"}) why_not(wrong);
}

TEST(RdzvConf, AFlagOfItsOwnGoesBeforeItsKey) {
  EXPECT_EQ(good({"--join-timeout=5", "--rdzv-conf=join_timeout=3", "x"}).job.join_timeout,
            std::chrono::seconds(5));
  EXPECT_EQ(good({"--rdzv-conf=join_timeout=3", "x"}).job.join_timeout, std::chrono::seconds(3));
}

}  // namespace
}  // namespace dlaunch::launcher
