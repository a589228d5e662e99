#include "store/server/session.h"

#include <gtest/gtest.h>

#include "tests/store/server/requests.h"

namespace dlaunch::store {
namespace {

using namespace test;
using Next = Session::Next;

const StoreLimits limits;

// The kinds decoded from the bytes, in pieces of so many.
std::vector<RequestKind> kinds(Session& session, std::string_view bytes, std::size_t piece) {
  std::vector<RequestKind> found;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const std::string copy(bytes.substr(at, piece));  // gone afterwards, as a read buffer's content is
    session.feed(as_byte_span(copy));
    Request request;
    while (session.next(request) == Next::request) found.push_back(request.kind);
    session.keep_rest();
  }
  return found;
}

TEST(Session, UnderstandsEveryDialectInPiecesOfAnySize) {
  for (const Dialect dialect : {Dialect::v1_13, Dialect::v2_1, Dialect::v2_2}) {
    std::string bytes;
    std::vector<RequestKind> wanted;
    for (const Request& one : one_of_each(dialect)) {
      bytes += encoded(one, dialect);
      if (one.kind != RequestKind::validate) wanted.push_back(one.kind);
    }
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
      Session session(limits, dialect == Dialect::v1_13 ? OldClients::v1_13 : OldClients::v2_1);
      EXPECT_EQ(kinds(session, bytes, piece), wanted) << "in pieces of " << piece;
      EXPECT_EQ(session.dialect(), dialect);
      EXPECT_EQ(session.buffered(), 0U);
    }
  }
}

TEST(Session, KnowsTheDialectByTheFirstByteUnlessItIsZero) {
  Session session(limits, OldClients::guess);
  EXPECT_EQ(session.dialect(), std::nullopt);
  EXPECT_TRUE(kinds(session, "\x03", 1).empty());  // 1.13 sends its type bytes alone
  EXPECT_EQ(session.dialect(), Dialect::before_2_2);
  EXPECT_EQ(kinds(session, text("init/") + i64(1), 100), std::vector{RequestKind::add});
}

TEST(Session, ZeroIsAGreetingOrTheOldSet) {
  const std::string key(200, 'k');
  const std::string set = encoded(request(RequestKind::set, key, "v"), Dialect::v1_13);
  Session old_one(limits, OldClients::guess);
  EXPECT_TRUE(kinds(old_one, std::string_view(set).substr(0, 4), 1).empty());
  EXPECT_EQ(old_one.dialect(), std::nullopt);
  EXPECT_EQ(kinds(old_one, std::string_view(set).substr(4), 1), std::vector{RequestKind::set});
  EXPECT_EQ(old_one.dialect(), Dialect::before_2_2);

  Session new_one(limits, OldClients::guess);
  EXPECT_TRUE(kinds(new_one, greeting, 1).empty());
  EXPECT_EQ(new_one.dialect(), Dialect::v2_2);
}

TEST(Session, NeverInsistsOnAnything) {
  Session session(limits, OldClients::guess);
  Request request;
  EXPECT_EQ(session.next(request), Next::more);
  session.keep_rest();
  EXPECT_EQ(session.buffered(), 0U);
}

TEST(Session, AGreetingInTheMiddleIsBad) {
  Session session(limits, OldClients::guess);
  EXPECT_TRUE(kinds(session, greeting + greeting, 100).empty());
  Request request;
  EXPECT_EQ(session.next(request), Next::bad);
  EXPECT_FALSE(session.why().empty());
}

TEST(Session, AWrongMagicIsALengthBeyondAllLimits) {
  Session session(limits, OldClients::guess);
  kinds(session, std::string("\0\xce\xf7\x85\x3d\0\0\0\0", 9), 100);
  Request request;
  EXPECT_EQ(session.next(request), Next::bad);
}

TEST(Session, SilenceAfterEightMeansDelete) {
  Session session(limits, OldClients::guess);
  const std::string bytes = encoded(request(RequestKind::delete_key, "k"), Dialect::v1_13);
  session.feed(as_byte_span(bytes));
  Request request;
  EXPECT_EQ(session.next(request), Next::silence_decides);
  session.keep_rest();
  session.silence();
  ASSERT_EQ(session.next(request), Next::request);
  EXPECT_EQ(request.kind, RequestKind::delete_key);
  EXPECT_EQ(session.dialect(), Dialect::v1_13);
  session.keep_rest();
  EXPECT_EQ(session.buffered(), 0U);
}

TEST(Session, MoreAfterEightMeansAppend) {
  Session session(limits, OldClients::guess);
  const std::string bytes = encoded(request(RequestKind::append, "k", "v"), Dialect::v2_1);
  EXPECT_EQ(kinds(session, bytes, 1), std::vector{RequestKind::append});
  EXPECT_EQ(session.dialect(), Dialect::v2_1);
  EXPECT_EQ(kinds(session, encoded(request(RequestKind::delete_key, "k"), Dialect::v2_1), 1),
            std::vector{RequestKind::delete_key});
}

TEST(Session, GivenDialectIsNotGuessed) {
  Session session(limits, OldClients::v1_13);
  EXPECT_EQ(kinds(session, encoded(request(RequestKind::delete_key, "k"), Dialect::v1_13), 1),
            std::vector{RequestKind::delete_key});
  EXPECT_EQ(kinds(session, encoded(request(RequestKind::watch_key, "k"), Dialect::v1_13), 1),
            std::vector{RequestKind::watch_key});
}

TEST(Session, RequestsNotAskedForAreKept) {
  Session session(limits, OldClients::guess);
  const std::string get = encoded(request(RequestKind::get, "k"));
  const std::string bytes = greeting + get + get + get;
  session.feed(as_byte_span(bytes));
  Request request;
  ASSERT_EQ(session.next(request), Next::request);
  session.keep_rest();
  EXPECT_GE(session.buffered(), 2 * get.size());
  session.feed({});
  EXPECT_EQ(session.next(request), Next::request);
  EXPECT_EQ(session.next(request), Next::request);
  EXPECT_EQ(request.key, "k");
  EXPECT_EQ(session.next(request), Next::more);
}

// A rejection stays when the client continues with valid bytes.
TEST(Session, NothingFollowsWhatWasBad) {
  Session session(limits, OldClients::v2_1);
  const std::string good = encoded(one_of_each(Dialect::v2_1).back(), Dialect::v2_1);
  const std::string bytes = "\xff" + good;
  session.feed(as_byte_span(bytes));
  Request request;
  EXPECT_EQ(session.next(request), Next::bad);
  const std::string why(session.why());
  EXPECT_FALSE(why.empty());
  session.keep_rest();
  session.feed(as_byte_span(good));
  EXPECT_EQ(session.next(request), Next::bad);
  EXPECT_EQ(session.why(), why);
}

TEST(Session, NothingIsKnownBeforeTheFirstByte) {
  for (const OldClients old : {OldClients::guess, OldClients::v1_13, OldClients::v2_1}) {
    Session session(limits, old);
    Request request;
    EXPECT_EQ(session.next(request), Next::more);
    session.feed({});
    EXPECT_EQ(session.next(request), Next::more);
    EXPECT_TRUE(session.why().empty());
    const std::string greeting = encoded(one_of_each(Dialect::v2_2).front(), Dialect::v2_2);
    EXPECT_EQ(
        kinds(session, greeting + encoded(one_of_each(Dialect::v2_2).back(), Dialect::v2_2), 100).size(), 1U);
    EXPECT_EQ(session.dialect(), Dialect::v2_2);
  }
}

}  // namespace
}  // namespace dlaunch::store
