#include "agent/observe/timer_requests.h"

#include <gtest/gtest.h>

#include <random>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double now_s = 1'700'000'000;

TEST(TimerRequest, ReadsTheFormOfPyTorch) {
  const auto set = parse_timer_request(
      R"({"version": 1, "pid": 4711, "scope_id": "train.py#12", "expiration_time": 1700000002.5, "signal": 10})",
      now_s);
  ASSERT_TRUE(set.ok()) << set.error().message();
  EXPECT_EQ(*set, (TimerRequest{4711, "train.py#12", milliseconds(2500), 10}));
  const auto released = parse_timer_request(
      R"({"version": 1, "pid": 4711, "scope_id": "train.py#12", "expiration_time": -1, "signal": 0})", now_s);
  EXPECT_EQ(*released, (TimerRequest{4711, "train.py#12", std::nullopt, 0}));
}

TEST(TimerRequest, AnInvalidSignalIsSigkill) {
  for (const char* signal : {"", R"(, "signal": 65)", R"(, "signal": "x")", R"(, "signal": 1e9)",
                             R"(, "signal": 18446744073709551615)", R"(, "signal": [[15]])"}) {
    const std::string line = R"({"pid": 1, "scope_id": "", "expiration_time": 1)" + std::string(signal) + "}";
    const auto request = parse_timer_request(line, now_s);
    ASSERT_TRUE(request.ok()) << line;
    EXPECT_EQ(*request, (TimerRequest{1, "", Duration(0), SIGKILL})) << line;
  }
}

TEST(TimerRequest, NoneOrLessAsksForNoSignal) {
  for (const char* signal : {"0", "-9"}) {
    const std::string line =
        R"({"pid": 1, "scope_id": "", "expiration_time": 1, "signal": )" + std::string(signal) + "}";
    EXPECT_EQ(*parse_timer_request(line, now_s), (TimerRequest{1, "", Duration(0), 0})) << line;
  }
}

TEST(TimerRequest, TimesAreBounded) {
  for (const char* time : {"1e300", "1.7976931348623157e308", "99999999999999999999999"}) {
    const auto request = parse_timer_request(
        R"({"pid": 1, "scope_id": "", "expiration_time": )" + std::string(time) + "}", now_s);
    ASSERT_TRUE(request.ok()) << time;
    EXPECT_EQ(*request->left, std::chrono::hours(24 * 365 * 10));
  }
}

TEST(TimerRequest, MalformedInputIsReportedAndQuoted) {
  for (const char* text : {"",
                           "{",
                           "[]",
                           "null",
                           "{}",
                           "\xff\xfe",
                           R"({"pid": 1, "scope_id": "x"})",
                           R"({"pid": 1, "expiration_time": 1})",
                           R"({"scope_id": "x", "expiration_time": 1})",
                           R"({"pid": 0, "scope_id": "x", "expiration_time": 1})",
                           R"({"pid": -1, "scope_id": "x", "expiration_time": 1})",
                           R"({"pid": 2147483648, "scope_id": "x", "expiration_time": 1})",
                           R"({"pid": 18446744073709551615, "scope_id": "x", "expiration_time": 1})",
                           R"({"pid": 1.5, "scope_id": "x", "expiration_time": 1})",
                           R"({"pid": "1", "scope_id": "x", "expiration_time": 1})",
                           R"({"pid": 1, "scope_id": 3, "expiration_time": 1})",
                           R"({"pid": 1, "scope_id": "x", "expiration_time": "1"})",
                           R"({"pid": 1, "scope_id": "x", "expiration_time": 1e999})",
                           R"({"pid": 1, "scope_id": "x", "expiration_time": NaN})",
                           R"({"version": 2, "pid": 1, "scope_id": "x", "expiration_time": 1})"}) {
    EXPECT_FALSE(parse_timer_request(text, now_s).ok()) << text;
  }
  EXPECT_EQ(parse_timer_request("\x1b[31mred", now_s).error().message(),
            "cannot read a request for a timer: it is not a JSON object; it begins with 'red'");
  EXPECT_FALSE(parse_timer_request(std::string(longest_timer_request, '['), now_s).ok());
  EXPECT_EQ(parse_timer_request(std::string(longest_timer_request + 1, ' '), now_s).error().why,
            "it is longer than 4096 bytes");
}

std::vector<std::string> cut(const std::vector<std::string>& pieces) {
  TimerLines lines;
  std::vector<std::string> out;
  for (const std::string& piece : pieces)
    lines.cut(piece, [&](std::string_view line) { out.emplace_back(line); });
  return out;
}

TEST(TimerLines, AreWholeForAnyFragmentation) {
  EXPECT_EQ(cut({"a\nb", "c", "\n\n", "d"}), (std::vector<std::string>{"a", "bc", ""}));
  EXPECT_EQ(cut({"\n"}), (std::vector<std::string>{""}));
}

TEST(TimerLines, ALineThatIsTooLongIsCutAndTheNextIsWhole) {
  const std::string much(3 * longest_timer_request, 'x');
  const auto lines = cut({much, much + "\nnext\n", std::string(longest_timer_request, 'y') + "\n"});
  EXPECT_EQ(lines, (std::vector<std::string>{std::string(longest_timer_request + 1, 'x'), "next",
                                             std::string(longest_timer_request, 'y')}));
}

class Timers : public testing::Test {
 protected:
  static TimePoint at(int s) { return TimePoint{} + seconds(s); }

  // `now` is 0 unless given.
  bool set(std::int32_t pid, const std::string& scope, int after_s, int signo = SIGKILL, int now = 0) {
    return book.take({pid, scope, seconds(after_s), signo}, birth, at(now));
  }
  void release(std::int32_t pid, const std::string& scope) {
    book.take({pid, scope, std::nullopt}, birth, at(0));
  }
  [[nodiscard]] TimerBook::Expired expired(std::int32_t pid, std::string scope, int signo = SIGKILL) const {
    return {{pid, birth}, std::move(scope), signo};
  }
  using Expired = std::vector<TimerBook::Expired>;

  TimerBook book;
  std::uint64_t birth = 77;
};

TEST_F(Timers, ExpireWhenTheirTimeHasCome) {
  EXPECT_EQ(book.next(), std::nullopt);
  set(2, "b", 20, SIGUSR1);
  set(1, "a", 10);
  EXPECT_EQ(book.next(), at(10));
  EXPECT_EQ(book.take_expired(at(9)), Expired{});
  EXPECT_EQ(book.take_expired(at(10)), (Expired{expired(1, "a")}));
  EXPECT_EQ(book.next(), at(20));
  EXPECT_EQ(book.take_expired(at(1000)), (Expired{expired(2, "b", SIGUSR1)}));
  EXPECT_EQ(book.next(), std::nullopt);
}

TEST_F(Timers, AreReleasedAndSetAgain) {
  set(1, "a", 10);
  release(1, "a");
  release(1, "never set");
  EXPECT_EQ(book.next(), std::nullopt);
  set(1, "a", 10);
  set(1, "a", 10, SIGTERM, 5);
  EXPECT_EQ(book.take_expired(at(14)), Expired{});
  EXPECT_EQ(book.take_expired(at(15)), (Expired{expired(1, "a", SIGTERM)}));
}

TEST_F(Timers, AProcessReceivesOneSignalForAllItsTimers) {
  set(1, "late", 12);
  set(1, "a", 11, SIGTERM);
  set(1, "first", 10, SIGUSR1);
  set(1, "never", 1000);
  set(2, "x", 11);
  EXPECT_EQ(book.take_expired(at(20)), (Expired{expired(1, "first", SIGUSR1), expired(2, "x")}));
  EXPECT_EQ(book.size(), 0U);
}

TEST_F(Timers, TimerWithoutSignalKeepsTheOthers) {
  set(1, "said", 10, 0);
  set(1, "a", 30);
  EXPECT_EQ(book.take_expired(at(20)), (Expired{expired(1, "said", 0)}));
  set(1, "said too", 25, 0);
  EXPECT_EQ(book.take_expired(at(30)), (Expired{expired(1, "a"), expired(1, "said too", 0)}));
}

TEST_F(Timers, BelongToTheProcessNotToItsPid) {
  set(1, "a", 10);
  birth = 78;
  release(1, "a");
  set(1, "b", 10);
  EXPECT_EQ(book.take_expired(at(10)).size(), 2U);
}

TEST_F(Timers, AreBounded) {
  for (std::size_t i = 0; i < TimerBook::most; ++i)
    ASSERT_TRUE(set(1 + static_cast<int>(i) % 8, std::to_string(i), 10));
  EXPECT_FALSE(set(9, "one more", 1));
  EXPECT_TRUE(set(1, "0", 5)) << "one that is there already";
  EXPECT_EQ(book.next(), at(5));
  int asked = 0;
  book.forget([&](const TimedProcess& process) { return ++asked, process.pid % 2 == 1; });
  EXPECT_EQ(asked, 8);
  EXPECT_EQ(book.size(), TimerBook::most / 2);
  EXPECT_TRUE(set(9, "one more", 1));
}

TEST(TimerRequests, SurviveAnyDamage) {
  std::mt19937 random(5);
  const std::string whole =
      R"({"version": 1, "pid": 4711, "scope_id": "a", "expiration_time": 1700000002.5, "signal": 10})";
  TimerBook book;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (int j = 0; j < 3; ++j) text[random() % text.size()] = static_cast<char>(random());
    const auto request = parse_timer_request(text, now_s);
    if (!request) continue;
    EXPECT_GT(request->pid, 0);
    EXPECT_GE(request->left.value_or(Duration(0)), Duration(0));
    book.take(*request, 1, TimePoint{});
  }
  EXPECT_LE(book.size(), TimerBook::most);
}

}  // namespace
}  // namespace dlaunch::agent
