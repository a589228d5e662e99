#include "agent/error_file.h"

#include <gtest/gtest.h>

#include <random>

namespace dlaunch::agent {
namespace {

TEST(ErrorFile, IsReadAsPyTorchWritesIt) {
  const auto error = parse_error_file(
      R"({"message": {"message": "ValueError: no\nmore", "extraInfo": {"py_callstack": "Traceback\n  x\n", "timestamp": "1"}}})");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "ValueError: no");
  EXPECT_EQ(error->traceback, "Traceback\n  x\n");
  EXPECT_EQ(parse_error_file(R"({"message": "  plain words "})")->message, "plain words ");
}

TEST(ErrorFile, WhatIsNoneIsIgnored) {
  for (const char* text : {"", "{", "[]", "null", "{}", R"({"message": 5})", R"({"message": ""})",
                           R"({"message": {"message": 5}})", R"({"message": {"extraInfo": "x"}})",
                           R"({"message": {"message": "x")", "\xff\xfe"}) {
    EXPECT_FALSE(parse_error_file(text)) << text;
  }
  EXPECT_EQ(parse_error_file(R"({"message": {"message": "x", "extraInfo": 3}})")->traceback, "");
}

TEST(ErrorFile, IsBounded) {
  const auto error = parse_error_file("{\"message\": \"" + std::string(100'000, 'x') + "\"}");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message.size(), 1000U);
}

TEST(ErrorFile, SurvivesAnyDamage) {
  std::mt19937 random(5);
  const std::string good = make_error_file("RuntimeError: \xff\x01 boom", 3, 1'700'000'000);
  ASSERT_TRUE(parse_error_file(good));
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good.substr(0, random() % (good.size() + 1));
    for (auto flips = random() % 4; flips > 0 && !bad.empty(); --flips)
      bad[random() % bad.size()] = static_cast<char>(random());
    (void)parse_error_file(bad);
  }
}

TEST(ErrorFile, OfEachWorkerHasAPlace) { EXPECT_EQ(error_file_path("/t/d", 2, 13), "/t/d/2_13.error.json"); }

}  // namespace
}  // namespace dlaunch::agent
