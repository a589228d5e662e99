#include "agent/model/error_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace dlaunch::agent {
namespace {

TEST(ErrorFile, ReadsTheFormsOfPyTorch) {
  const auto error = parse_error_file(
      R"({"message": {"message": "ValueError: no\nmore", "extraInfo": {"py_callstack": "Traceback\n  x\n", "timestamp": "1"}}})");
  ASSERT_TRUE(error.ok());
  EXPECT_EQ(*error, (ErrorFile{"ValueError: no", "Traceback\n  x", 1}));
  EXPECT_EQ(*parse_error_file(R"({"message": "  plain words", "timestamp": 17})"),
            (ErrorFile{"plain words", "", 17}));
}

TEST(ErrorFile, MalformedInputIsReportedAndQuoted) {
  for (const char* text : {"", "{", "[]", "null", "{}", R"({"message": 5})", R"({"message": ""})",
                           R"({"message": {"message": 5}})", R"({"message": {"extraInfo": "x"}})",
                           R"({"message": {"message": "x")", "\xff\xfe"}) {
    EXPECT_FALSE(parse_error_file(text).ok()) << text;
  }
  EXPECT_EQ(parse_error_file(R"({"message": {"message": "x", "extraInfo": 3}})")->traceback, "");
  EXPECT_EQ(parse_error_file("\x1b[31mred\n").error().message(),
            "cannot read its error file: it is not a JSON object; it begins with 'red '");
}

TEST(ErrorFile, ItsTimeIsOneOrNone) {
  for (const char* time : {"\"x\"", "-5", "\"99999999999999999999\"", "1e3", "[]", "9999999999999"}) {
    const std::string text = std::string(R"({"message": "x", "timestamp": )") + time + "}";
    EXPECT_EQ(parse_error_file(text)->unix_s, 0) << time;
  }
}

TEST(ErrorFile, ExceptionTimeIsTheFilesTimeOrItsOwnEarlierTimestamp) {
  constexpr std::int64_t s = 1'000'000'000;
  const std::int64_t end = 1'700'000'010 * s;
  EXPECT_EQ(since_exception(end, end - s / 10, {"", "", 0}), std::chrono::milliseconds(100));
  EXPECT_EQ(since_exception(end, end - s / 10, {"", "", 1'700'000'009}), std::chrono::milliseconds(100));
  // It was written late: the second in it has passed by then.
  EXPECT_EQ(since_exception(end, end - s / 10, {"", "", 1'700'000'005}), std::chrono::seconds(4));
  EXPECT_EQ(since_exception(end, end - s / 10, {"", "", 5}), std::chrono::milliseconds(100)) << "nonsense";
  EXPECT_EQ(since_exception(end, end + s, {"", "", 0}), Duration(0)) << "a clock that was set back";
}

TEST(ErrorFile, IsBounded) {
  const auto error = parse_error_file("{\"message\": \"" + std::string(100'000, 'x') + "\"}");
  ASSERT_TRUE(error.ok());
  EXPECT_EQ(error->message.size(), 1000U);
  EXPECT_FALSE(parse_error_file("{\"message\": \"" + std::string(longest_error_file, 'x') + "\"}").ok());
  EXPECT_FALSE(parse_error_file(std::string(longest_error_file, '[')).ok());
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "line\\n";
  const auto many =
      parse_error_file(R"({"message": {"message": "x", "extraInfo": {"py_callstack": ")" + lines + "\"}}}");
  EXPECT_EQ(std::count(many->traceback.begin(), many->traceback.end(), '\n'), 19);
}

TEST(ErrorFile, OnlyTheCodeIsAddedToAWorkersOwn) {
  EXPECT_EQ(with_error_code(
                R"({"message": {"message": "a\nb", "extraInfo": {"x": 1}, "errorCode": 1}, "own": [2]})", 7),
            R"({"message":{"message":"a\nb","extraInfo":{"x":1},"errorCode":7},"own":[2]})");
  for (const char* none : {"", "{", "[]", "{}", R"({"message": "text"})", R"({"message": 3})"})
    EXPECT_EQ(with_error_code(none, 7), std::nullopt) << none;
}

TEST(ErrorFile, SurvivesAnyDamage) {
  std::mt19937 random(5);
  const std::string good = to_error_file({"RuntimeError: \xff\x01 boom", "Traceback", 1'700'000'000}, 3);
  ASSERT_TRUE(parse_error_file(good).ok());
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good.substr(0, random() % (good.size() + 1));
    for (auto flips = random() % 4; flips > 0 && !bad.empty(); --flips)
      bad[random() % bad.size()] = static_cast<char>(random());
    (void)parse_error_file(bad);
  }
}

TEST(ErrorFile, EachWorkerHasAPath) { EXPECT_EQ(error_file_path("/t/d", 2, 13), "/t/d/2_13.error.json"); }

}  // namespace
}  // namespace dlaunch::agent
