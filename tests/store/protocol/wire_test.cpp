#include "store/protocol/wire.h"

#include <gtest/gtest.h>

#include "tests/store/server/requests.h"

namespace dlaunch::store {
namespace {

using namespace test;
using Status = Decoded::Status;

const StoreLimits limits;

class EachDialect : public testing::TestWithParam<Dialect> {};

TEST_P(EachDialect, ReadsWhatItWrites) {
  for (const Request& wanted : one_of_each(GetParam())) {
    const std::string bytes = encoded(wanted, GetParam());
    Request got;
    const Decoded decoded = decode(GetParam(), as_byte_span(bytes), limits, got);
    ASSERT_EQ(decoded.status, Status::whole) << name_of(wanted.kind);
    EXPECT_EQ(decoded.size, bytes.size());
    EXPECT_EQ(got.kind, wanted.kind);
    EXPECT_EQ(encoded(got, GetParam()), bytes);
  }
}

TEST_P(EachDialect, AsksForMoreAtEveryBytesEnd) {
  for (const Request& wanted : one_of_each(GetParam())) {
    const std::string bytes = encoded(wanted, GetParam());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      Request got;
      const Decoded decoded = decode(GetParam(), as_byte_span(bytes).first(size), limits, got);
      ASSERT_EQ(decoded.status, Status::more) << name_of(wanted.kind) << " cut at " << size;
      EXPECT_GT(decoded.size, size);
      EXPECT_LE(decoded.size, bytes.size());  // more would mean a wait for ever
    }
  }
}

TEST_P(EachDialect, TakesOneRequestAndLeavesTheNext) {
  for (const Request& wanted : one_of_each(GetParam())) {
    const std::string bytes = encoded(wanted, GetParam());
    Request got;
    const std::string two = bytes + encoded(request(RequestKind::get, "next"), GetParam());
    EXPECT_EQ(decode(GetParam(), as_byte_span(two), limits, got).size, bytes.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Wire, EachDialect, testing::Values(Dialect::v1_13, Dialect::v2_1, Dialect::v2_2),
                         [](const auto& one) {
                           return std::string(one.param == Dialect::v1_13  ? "v1_13"
                                              : one.param == Dialect::v2_1 ? "v2_1"
                                                                           : "v2_2");
                         });

TEST(Wire, TheThreeNumberings) {
  const auto number = [](Dialect dialect, RequestKind kind) {
    return type_byte(dialect, kind).value_or(255);
  };
  EXPECT_EQ(number(Dialect::v1_13, RequestKind::set), 0);
  EXPECT_EQ(number(Dialect::v2_1, RequestKind::set), 0);
  EXPECT_EQ(number(Dialect::v2_2, RequestKind::set), 1);
  EXPECT_EQ(number(Dialect::v1_13, RequestKind::delete_key), 8);
  EXPECT_EQ(number(Dialect::v2_1, RequestKind::delete_key), 7);
  EXPECT_EQ(number(Dialect::v2_2, RequestKind::delete_key), 8);
  EXPECT_EQ(number(Dialect::v2_1, RequestKind::append), 8);
  EXPECT_EQ(number(Dialect::v2_1, RequestKind::cancel_wait), 11);
  EXPECT_EQ(number(Dialect::v2_2, RequestKind::cancel_wait), 12);
  EXPECT_EQ(number(Dialect::v2_2, RequestKind::ping), 13);
  EXPECT_EQ(number(Dialect::v2_2, RequestKind::barrier), 18);
  EXPECT_EQ(number(Dialect::v1_13, RequestKind::watch_key), 7);
  EXPECT_FALSE(type_byte(Dialect::v1_13, RequestKind::cancel_wait));
  EXPECT_FALSE(type_byte(Dialect::v2_2, RequestKind::watch_key));
}

TEST(Wire, UnknownNumbersAreBad) {
  Request got;
  EXPECT_EQ(decode(Dialect::v2_2, as_byte_span("\x13"), limits, got).status, Status::bad);
  EXPECT_EQ(decode(Dialect::v2_1, as_byte_span("\x0c"), limits, got).status, Status::bad);
  EXPECT_EQ(decode(Dialect::before_2_2, as_byte_span("\x0c"), limits, got).status, Status::bad);
  EXPECT_EQ(decode(Dialect::v1_13, as_byte_span("\x09"), limits, got).status, Status::bad);
}

// A length is rejected when it is announced, long before so many bytes have come.
TEST(Wire, RefusesAnnouncedLengths) {
  Request got;
  for (const std::int64_t length :
       {std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}}) {
    for (const char type : {'\x01', '\x03', '\x06', '\x0b'}) {
      const std::string bytes = type + i64(length);
      EXPECT_EQ(decode(Dialect::v2_2, as_byte_span(bytes), limits, got).status, Status::bad)
          << int(type) << " " << length;
    }
    const std::string value = '\x01' + text("key") + i64(length);
    EXPECT_EQ(decode(Dialect::v2_2, as_byte_span(value), limits, got).status, Status::bad);
  }
  StoreLimits small;
  small.request_bytes = 100;
  const std::string bytes = '\x01' + text("key") + i64(101);
  EXPECT_EQ(decode(Dialect::v2_2, as_byte_span(bytes), small, got).status, Status::bad);
}

TEST(Wire, ReportsHowManyBytesAreMissing) {
  Request got;
  const std::string value = '\x01' + text("key") + i64(1000) + "abc";
  EXPECT_EQ(decode(Dialect::v2_2, as_byte_span(value), limits, got).size, 1 + 8 + 3 + 8 + 1000U);
  // Each further key takes at least eight bytes.
  const std::string keys = '\x06' + i64(10) + text("key");
  EXPECT_EQ(decode(Dialect::v2_2, as_byte_span(keys), limits, got).size, keys.size() + 9 * 8);
}

// 8 is 1.13's DELETE_KEY and 2.1's APPEND: the bytes after the key decide, or their absence.
TEST(Wire, EightIsARiddle) {
  Request got;
  const std::string key = '\x08' + text("key");
  const Decoded alone = decode(Dialect::before_2_2, as_byte_span(key), limits, got);
  EXPECT_EQ(alone.status, Status::silence_decides);
  EXPECT_EQ(alone.size, key.size());
  EXPECT_EQ(got.kind, RequestKind::delete_key);
  EXPECT_EQ(got.key, "key");

  const std::string begun = key + "\x01";
  EXPECT_EQ(decode(Dialect::before_2_2, as_byte_span(begun), limits, got).status, Status::more);
  const std::string append = key + text("value");
  const Decoded whole = decode(Dialect::before_2_2, as_byte_span(append), limits, got);
  EXPECT_EQ(whole.status, Status::whole);
  EXPECT_EQ(whole.dialect, Dialect::v2_1);
  EXPECT_EQ(got.kind, RequestKind::append);
}

TEST(Wire, WhatOnly21HasShowsTheDialect) {
  Request got;
  EXPECT_EQ(decode(Dialect::before_2_2, as_byte_span("\x0b"), limits, got).dialect, Dialect::v2_1);
  const std::string get = '\x02' + text("key");
  EXPECT_EQ(decode(Dialect::before_2_2, as_byte_span(get), limits, got).dialect, Dialect::before_2_2);
}

TEST(Wire, Answers) {
  Answer answer;
  answer.number = -2;
  answer.bytes = "v";
  answer.texts = {"a", ""};
  const auto as = [&](Answer::Kind kind) {
    answer.kind = kind;
    return encoded(answer);
  };
  EXPECT_EQ(as(Answer::Kind::none), "");
  EXPECT_EQ(as(Answer::Kind::refused), "");
  EXPECT_EQ(as(Answer::Kind::byte), "\xfe");
  EXPECT_EQ(as(Answer::Kind::nonce), "\xfe\xff\xff\xff");
  EXPECT_EQ(as(Answer::Kind::number), i64(-2));
  EXPECT_EQ(as(Answer::Kind::bytes), text("v"));
  EXPECT_EQ(as(Answer::Kind::many), text("a") + text(""));
  EXPECT_EQ(as(Answer::Kind::listed), i64(2) + text("a") + text(""));
  answer.number = 3;
  EXPECT_EQ(as(Answer::Kind::popped), i64(3) + text("v"));
  answer.number = 0;
  EXPECT_EQ(as(Answer::Kind::popped), i64(0));
}

TEST(Wire, ARequestThatADialectDoesNotKnowIsNotWritten) {
  std::string out;
  Request request;
  request.kind = RequestKind::watch_key;
  EXPECT_FALSE(encode(Dialect::v2_2, request, out));
  EXPECT_TRUE(out.empty());
  request.kind = RequestKind::get;
  EXPECT_TRUE(encode(Dialect::v2_2, request, out));
  EXPECT_FALSE(out.empty());
}

}  // namespace
}  // namespace dlaunch::store
