#include "launcher/doctor/probe_session.h"

#include <gtest/gtest.h>

#include "store/base/bytes.h"

namespace dlaunch::launcher {
namespace {

std::string clock_of(std::int64_t now) {
  std::string bytes;
  ByteWriter(bytes).i64(now);
  return bytes;
}

TEST(ProbeSession, AnswersEachRequestOnceItIsWhole) {
  ProbeSession session("key");
  EXPECT_EQ(session.take("key" + request_head(3) + "ab", 5), "");
  EXPECT_EQ(session.take("c", 6), clock_of(6));
  EXPECT_EQ(session.take(request_head(0) + request_head(1) + "x" + request_head(2), 7),
            clock_of(7) + clock_of(7));
  EXPECT_EQ(session.take("yz", 8), clock_of(8));
  EXPECT_FALSE(session.is_bad());
}

TEST(ProbeSession, BytesMayComeOneByOne) {
  ProbeSession session("key");
  std::string answers;
  for (const char c : "key" + request_head(2) + "ab" + request_head(0)) answers += session.take({&c, 1}, 9);
  EXPECT_EQ(answers, clock_of(9) + clock_of(9));
}

TEST(ProbeSession, AWrongKeyIsBadAsSoonAsItShows) {
  ProbeSession session("key");
  EXPECT_EQ(session.take("k", 1), "");
  EXPECT_FALSE(session.is_bad());
  EXPECT_EQ(session.take("a", 1), "");
  EXPECT_TRUE(session.is_bad());
  EXPECT_EQ(session.take("ey" + request_head(0), 1), "");
  ProbeSession whole("key");
  EXPECT_EQ(whole.take("GET / HTTP/1.1", 1), "");
  EXPECT_TRUE(whole.is_bad());
}

TEST(ProbeSession, ARequestOfTooMuchIsBad) {
  ProbeSession session("key");
  EXPECT_EQ(session.take("key" + request_head(ProbeSession::longest_request), 1), "");
  EXPECT_FALSE(session.is_bad());
  ProbeSession other("key");
  other.take("key" + request_head(ProbeSession::longest_request + 1), 1);
  EXPECT_TRUE(other.is_bad());
}

}  // namespace
}  // namespace dlaunch::launcher
