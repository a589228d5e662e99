#include "store/client/job_key.h"

#include <gtest/gtest.h>

#include <fstream>

#include "store/base/hmac.h"
#include "store/protocol/key_proof.h"
#include "tests/runtime/api/variable.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::store {
namespace {

TEST(JobKey, IsReadAsItIsWritten) {
  const std::string key = store_key("s3cret");
  EXPECT_EQ(key.size(), mac_size);
  for (const JobKey& job : {JobKey{key, false}, JobKey{key, true}})
    EXPECT_EQ(parse_store_key(store_key_text(job)), job);
  for (const char* bad : {"", "\n", "00\n", "secret"}) EXPECT_EQ(parse_store_key(bad), JobKey{});
  std::string text = store_key_text({key});
  text[5] = 'x';
  EXPECT_EQ(parse_store_key(text), JobKey{});
}

// The environment of a worker whose agent serves a store with this key at a:29500.
class WorkersKey : public testing::Test {
 protected:
  WorkersKey() { std::ofstream(path_) << store_key_text(key_); }
  test::TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/key";
  JobKey key_{std::string(mac_size, 'k'), true};
  test::Variable file_{"DLAUNCH_STORE_KEY_FILE", path_.c_str()};
  test::Variable by_agent_{"TORCHELASTIC_USE_AGENT_STORE", "True"};
  test::Variable host_{"MASTER_ADDR", "a"};
  test::Variable port_{"MASTER_PORT", "29500"};
};

TEST_F(WorkersKey, IsOfTheStoreThatTheAgentServes) {
  EXPECT_EQ(job_store_key({"a", 29500}), key_);
  EXPECT_EQ(job_store_key({"a", 29501}), JobKey{});
  EXPECT_EQ(job_store_key({"b", 29500}), JobKey{});
  by_agent_.set("False");
  EXPECT_EQ(job_store_key({"a", 29500}), JobKey{}) << "rank 0 serves the store";
}

TEST_F(WorkersKey, AFileThatIsMissingOrNoKeyIsNone) {
  std::ofstream(path_, std::ios::app) << "more\n";
  EXPECT_EQ(job_store_key({"a", 29500}), JobKey{});
  file_.set((path_ + "x").c_str());
  EXPECT_EQ(job_store_key({"a", 29500}), JobKey{});
  file_.set(nullptr);
  EXPECT_EQ(job_store_key({"a", 29500}), JobKey{});
}

TEST(JobKey, WhatFollowsTheKeyIsOnlyTls) {
  const std::string text = store_key_text({std::string(mac_size, 'k'), false});
  const std::string digits = text.substr(0, text.size() - 1);
  EXPECT_TRUE(parse_store_key(digits + " tls\n").tls);
  for (const char* end : {"", " tls", " TLS\n", " tls\n\n", "0\n"})
    EXPECT_EQ(parse_store_key(digits + end), JobKey{}) << end;
}

}  // namespace
}  // namespace dlaunch::store
