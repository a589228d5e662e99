#include "store/server/table.h"

#include <gtest/gtest.h>

#include <optional>
#include <type_traits>
#include <vector>

#include "tests/store/server/table_fixture.h"

namespace dlaunch::store {
namespace {

using namespace test;

TEST_F(TableTest, SetAndGet) {
  EXPECT_EQ(ask(a, set("k", "v")), "");
  EXPECT_EQ(ask(b, get("k")), text("v"));
  ask(a, set("k", "longer than before"));
  EXPECT_EQ(ask(b, get("k")), text("longer than before"));
  ask(a, set("k", ""));
  EXPECT_EQ(ask(b, get("k")), text(""));
}

TEST_F(TableTest, AnAbsentKeyIsGotAsEmpty) { EXPECT_EQ(ask(a, get("absent")), text("")); }

TEST_F(TableTest, AddKeepsDecimalText) {
  EXPECT_EQ(ask(a, add("n", 5)), i64(5));
  EXPECT_EQ(ask(a, add("n", -7)), i64(-2));
  EXPECT_EQ(ask(a, get("n")), text("-2"));
  ask(a, set("n", " 7x"));
  EXPECT_EQ(ask(a, add("n", 1)), i64(8));
  ask(a, set("n", "9223372036854775807"));
  EXPECT_EQ(ask(a, add("n", 1)), i64(std::numeric_limits<std::int64_t>::min()));
}

TEST_F(TableTest, AddOfNothingCreatesAndWakes) {
  ask(b, wait({"n"}));
  EXPECT_EQ(ask(a, add("n", 0)), i64(0));
  EXPECT_EQ(take(b), stop);
  EXPECT_EQ(ask(a, get("n")), text("0"));
}

TEST_F(TableTest, AddToWhatIsNoNumberIsRefused) {
  for (const char* value : {"", "text", "99999999999999999999"}) {
    ask(a, set("n", value));
    EXPECT_EQ(ask(a, add("n", 1)), "");
    EXPECT_TRUE(a.refused);
    EXPECT_EQ(ask(a, get("n")), text(value));
  }
}

TEST_F(TableTest, CompareSetByTheBook) {
  EXPECT_EQ(ask(a, compare("k", "x", "y")), text("x"));  // absent and something expected: that comes back
  EXPECT_EQ(ask(a, check({"k"})), not_ready);
  EXPECT_EQ(ask(a, compare("k", "", "first")), text("first"));
  EXPECT_EQ(ask(a, compare("k", "wrong", "y")), text("first"));
  EXPECT_EQ(ask(a, compare("k", "", "y")), text("first"));
  EXPECT_EQ(ask(a, compare("k", "first", "second")), text("second"));
  EXPECT_EQ(ask(a, get("k")), text("second"));
  EXPECT_EQ(ask(a, compare("e", "", "")), text(""));
  EXPECT_EQ(ask(a, compare("e", "", "z")), text("z"));  // an empty value matches an empty expectation
}

TEST_F(TableTest, CompareSetWakesIfItCreatesAndOnlyThen) {
  ask(b, wait({"k"}));
  ask(a, compare("k", "x", "y"));
  EXPECT_EQ(take(b), "");
  ask(a, compare("k", "", "y"));
  EXPECT_EQ(take(b), stop);
  ask(a, compare("k", "y", "z"));
  EXPECT_EQ(take(b), "");
}

TEST_F(TableTest, Check) {
  ask(a, set("k"));
  EXPECT_EQ(ask(a, check({})), ready);
  EXPECT_EQ(ask(a, check({"k"})), ready);
  EXPECT_EQ(ask(a, check({"k", "absent"})), not_ready);
}

TEST_F(TableTest, CountsEveryKeyButNoQueue) {
  ask(a, add("init/", 1));
  ask(a, set("/k"));
  ask(a, push("/q", "v"));
  EXPECT_EQ(ask(a, request(RequestKind::num_keys)), i64(2));
  EXPECT_EQ(ask(a, remove("/k")), i64(1));
  EXPECT_EQ(ask(a, remove("/k")), i64(0));
  EXPECT_EQ(ask(a, request(RequestKind::num_keys)), i64(1));
}

TEST_F(TableTest, Append) {
  ask(b, wait({"k"}));
  EXPECT_EQ(ask(a, request(RequestKind::append, "k", "po")), "");
  EXPECT_EQ(take(b), stop);
  ask(a, request(RequestKind::append, "k", "tato"));
  EXPECT_EQ(ask(a, get("k")), text("potato"));
  ask(a, add("n", 1));
  ask(a, request(RequestKind::append, "n", "2"));
  EXPECT_EQ(ask(a, add("n", 1)), i64(13));
}

TEST_F(TableTest, ManyAtOnce) {
  ask(b, wait({"y"}));
  EXPECT_EQ(ask(a, listing(RequestKind::multi_set, {"x", "y"}, {"1", "22"})), "");
  EXPECT_EQ(take(b), stop);
  EXPECT_EQ(ask(a, listing(RequestKind::multi_get, {"y", "absent", "x"})), text("22") + text("") + text("1"));
  EXPECT_EQ(ask(a, listing(RequestKind::multi_get, {})), "");
  EXPECT_EQ(ask(a, request(RequestKind::list_keys)), i64(2) + text("x") + text("y"));
}

TEST_F(TableTest, Ping) {
  EXPECT_EQ(ask(a, numbered(RequestKind::ping, {}, 0x5656)), std::string("VV\0\0", 4));
  EXPECT_EQ(ask(a, numbered(RequestKind::ping, {}, ping_of_dlaunch)), std::string("\xC7\xA0\xD1\0", 4));
}

// dlaunch's client reads a byte before the sum, so that an addition can fail without ending the connection.
TEST_F(TableTest, AnswersTheAdditionsOfOurClientWithAByteFirst) {
  ask(a, numbered(RequestKind::ping, {}, ping_of_dlaunch));
  EXPECT_EQ(ask(a, add("n", 5)), ready + i64(5));
  EXPECT_EQ(ask(b, add("n", 1)), i64(6)) << "another client has not greeted so";
  ask(a, numbered(RequestKind::ping, {}, 7));
  EXPECT_EQ(ask(a, add("n", 1)), ready + i64(7)) << "nor does another number end it";
  ask(b, request(RequestKind::set, "text", "text"));
  EXPECT_EQ(ask(a, add("text", 1)), byte(answer_no_number));
  EXPECT_EQ(ask(a, request(RequestKind::get, "text")), text("text"));
  EXPECT_EQ(ask(a, numbered(RequestKind::barrier, "ring", 1)), stop)
      << "BARRIER adds, too, but answers no sum";
  EXPECT_FALSE(a.refused);

  StoreLimits limits;
  limits.total_bytes = 10;
  Table small(limits);
  deliver(&b, small.apply(b, numbered(RequestKind::ping, {}, ping_of_dlaunch)));
  take(b);
  deliver(&b, small.apply(b, add("a long name", 1)));
  EXPECT_EQ(take(b), byte(answer_store_full));
  EXPECT_FALSE(b.refused);
}

// --- limits ---

TEST_F(TableTest, CountsItsBytesBackToNothing) {
  ask(a, set("k", std::string(1000, 'x')));
  EXPECT_GE(table.bytes(), 1000U);
  ask(a, set("k", "short"));
  EXPECT_LT(table.bytes(), 1000U);
  ask(a, push("q", "value"));
  ask(b, wait({"never", "ever"}));
  ask(c, barrier("b", 2));
  ask(c, request(RequestKind::watch_key, "k"));
  ask(a, request(RequestKind::append, "k", "er"));
  ask(a, remove("k"));
  ask(a, remove("b"));
  ask(a, pop("q"));
  leave(b);
  leave(c);
  EXPECT_EQ(table.bytes(), 0U);
  EXPECT_EQ(table.waiting(), 0U);
}

// What is replaced, deleted or popped counts for as long as an answer carries it.
TEST_F(TableTest, CountsWhatAnswersStillCarry) {
  std::vector<SharedBytes> carried;
  const auto carry = [&](const Request& request) {
    encode(table.apply(a, request).answer, [&](const auto& piece) {
      if constexpr (std::is_same_v<std::decay_t<decltype(piece)>, SharedBytes>) carried.push_back(piece);
    });
  };
  for (const char value : {'x', 'y', 'z'}) {
    ask(b, set("k", std::string(1000, value)));
    carry(get("k"));
  }
  ask(b, request(RequestKind::append, "k", "more"));
  carry(listing(RequestKind::multi_get, {"k", "k", "none"}));
  ask(b, remove("k"));
  ask(b, push("q", std::string(1000, 'q')));
  carry(pop("q"));
  ask(b, get("none"));
  ASSERT_EQ(carried.size(), 6U);
  EXPECT_EQ(table.bytes(), 5004U) << "x, y, z, what z has become, and q";
  EXPECT_EQ(carried[0].view(), std::string(1000, 'x')) << "does not change under an answer";
  EXPECT_EQ(carried[2].view(), std::string(1000, 'z'));
  EXPECT_EQ(carried[3].view(), std::string(1000, 'z') + "more");
  carried.erase(carried.begin() + 3);
  EXPECT_EQ(table.bytes(), 5004U);
  carried.clear();
  EXPECT_EQ(table.bytes(), 0U);
}

TEST_F(TableTest, ANewValueIsRefusedWhileAnswersCarryTheOldOnes) {
  StoreLimits limits;
  limits.total_bytes = 2'500;
  Table small(limits);
  ASSERT_EQ(small.apply(a, set("k", std::string(1000, 'x'))).answer.kind, Answer::Kind::none);
  std::optional<SharedBytes> carried = *small.apply(a, get("k")).answer.bytes.shared;
  ASSERT_EQ(small.apply(a, set("k", std::string(1000, 'y'))).answer.kind, Answer::Kind::none);
  std::optional<SharedBytes> more = *small.apply(a, get("k")).answer.bytes.shared;
  EXPECT_EQ(small.apply(a, set("k", std::string(1000, 'z'))).answer.kind, Answer::Kind::refused);
  carried.reset();
  EXPECT_EQ(small.apply(a, set("k", std::string(1000, 'z'))).answer.kind, Answer::Kind::none);
}

TEST_F(TableTest, RefusesWhatIsTooMuch) {
  StoreLimits limits;
  limits.total_bytes = 10'000;
  limits.value_bytes = 6'000;
  limits.answer_bytes = 8'000;
  Table small(limits);
  const std::string half(5'000, 'x');
  const auto refused = [&](const Request& request) {
    return small.apply(a, request).answer.kind == Answer::Kind::refused;
  };
  EXPECT_FALSE(refused(set("k", half)));
  EXPECT_TRUE(refused(set("l", half)));
  EXPECT_TRUE(refused(push("q", half)));
  EXPECT_TRUE(refused(request(RequestKind::append, "k", std::string(1'001, 'y'))));
  EXPECT_TRUE(refused(compare("l", "", half)));
  EXPECT_TRUE(refused(listing(RequestKind::multi_set, {"l", "m"}, {"small", half})));
  EXPECT_TRUE(refused(listing(RequestKind::multi_get, {"k", "k"})));
  EXPECT_TRUE(refused(wait({half})));
  EXPECT_EQ(small.keys(), 1U);
  EXPECT_FALSE(refused(set("k", "")));
  EXPECT_FALSE(refused(set("l", half)));
}

}  // namespace
}  // namespace dlaunch::store
