#include "agent/election/etcd_messages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "store/base/base64.h"

namespace dlaunch::agent {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

TEST(EtcdMessages, ALeaseLivesForWholeSeconds) {
  EXPECT_EQ(Json::parse(grant_lease(milliseconds(1500)).body), (Json{{"TTL", "2"}}));
  EXPECT_EQ(grant_lease(milliseconds(1500)).path, "/v3/lease/grant");
}

TEST(EtcdMessages, CampaignTakesTheKeyOnlyIfItIsFree) {
  const Json body = Json::parse(campaign("k", "v", 7).body);
  EXPECT_EQ(body["compare"][0]["createRevision"], "0");
  EXPECT_EQ(body["compare"][0]["key"], to_base64("k"));
  EXPECT_EQ(body["success"][0]["requestPut"]["lease"], "7");
  EXPECT_EQ(body["success"][0]["requestPut"]["value"], to_base64("v"));
  EXPECT_EQ(body["failure"][0]["requestRange"]["key"], to_base64("k"));
  EXPECT_EQ(body["success"][1]["requestRange"]["key"], to_base64("k/ended"));
}

TEST(EtcdMessages, OnlyTheLeaderStoresTheJobEnding) {
  const Json body = Json::parse(leave_behind("k", "v", "text", 7).body);
  EXPECT_EQ(body["compare"][0]["target"], "VALUE");
  EXPECT_EQ(body["compare"][0]["key"], to_base64("k"));
  EXPECT_EQ(body["compare"][0]["value"], to_base64("v"));
  EXPECT_EQ(body["success"][0]["requestPut"]["key"], to_base64("k/ended"));
  EXPECT_EQ(body["success"][0]["requestPut"]["value"], to_base64("text"));
  EXPECT_EQ(body["success"][0]["requestPut"]["lease"], "7");
}

TEST(EtcdMessages, WinnerReadsThePreviousJobEnding) {
  const auto won =
      read_campaign(R"({"header":{"revision":"6"},"succeeded":true,"responses":[{"response_put":{}},)"
                    R"({"response_range":{"kvs":[{"value":"dmFsdWU="}]}}]})");
  ASSERT_TRUE(won.ok());
  EXPECT_TRUE(won->won);
  EXPECT_EQ(won->left_behind, "value");
  EXPECT_FALSE(
      read_campaign(R"({"header":{"revision":"5"},"succeeded":true,"responses":[{}]})")->left_behind);
}

TEST(EtcdMessages, AnswersAreRead) {
  EXPECT_EQ(read_granted(R"({"header":{},"ID":"7587860","TTL":"5"})")->lease, 7587860);
  EXPECT_FALSE(read_granted("{}").ok());
  EXPECT_TRUE(read_campaign(R"({"header":{"revision":"5"},"succeeded":true,"responses":[{}]})")->won);
  const auto lost = read_campaign(
      R"({"header":{"revision":"6"},"responses":[{"response_range":{"kvs":[{"value":"dmFsdWU="}]}}]})");
  ASSERT_TRUE(lost.ok());
  EXPECT_FALSE(lost->won);
  EXPECT_EQ(lost->value, "value");
  EXPECT_EQ(lost->revision, 6);
  EXPECT_TRUE(read_renewed(R"({"result":{"ID":"7","TTL":"5"}})")->alive);
  EXPECT_FALSE(read_renewed(R"({"result":{"ID":"7"}})")->alive) << "a number that is 0 is left out";
  for (const char* strange : {"", "[]", "null", "{\"result\":3}", "{\"header\":[]}", "\xff"}) {
    EXPECT_FALSE(read_granted(strange).ok()) << strange;
    EXPECT_FALSE(read_campaign(strange).ok()) << strange;
    EXPECT_FALSE(read_renewed(strange).ok()) << strange;
    EXPECT_FALSE(read_watch_line(strange).ok()) << strange;
  }
}

TEST(EtcdMessages, AWatchTellsOfChanges) {
  EXPECT_FALSE(read_watch_line(R"({"result":{"created":true}})")->has_value());
  const auto gone = read_watch_line(R"({"result":{"events":[{"type":"DELETE","kv":{"key":"aw=="}}]}})");
  ASSERT_TRUE(gone.ok() && *gone);
  EXPECT_FALSE((*gone)->value);
  const auto other = read_watch_line(R"({"result":{"events":[{"kv":{"key":"aw==","value":"dmFsdWU="}}]}})");
  ASSERT_TRUE(other.ok() && *other);
  EXPECT_EQ((*other)->value, "value");
  EXPECT_FALSE(read_watch_line(R"({"result":{"canceled":true}})").ok());
}

TEST(EtcdMessages, ErrorsQuoteEtcdsMessage) {
  EXPECT_EQ(read_trouble(400, R"({"error":"lease not found","code":5})"), "lease not found");
  EXPECT_EQ(read_trouble(404, "404 page not found"), "etcd answered with status 404");
}

}  // namespace
}  // namespace dlaunch::agent
