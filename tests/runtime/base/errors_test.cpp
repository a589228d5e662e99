// Errors on their way up: type, place and reason.

#include "runtime/base/errors.h"

#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "dlaunch/error.h"

namespace dlaunch::internal {
namespace {

TEST(Errors, KeepTheirTypeOnTheWayUp) {
  const auto raw = std::make_exception_ptr(DistStoreError("gone", {.peer = 3}));
  const auto up = in_context(raw, {2, "barrier", 7, "default", 5, "node7"});
  EXPECT_THROW(std::rethrow_exception(up), DistStoreError);
  EXPECT_EQ(message_of(up), "rank 2, barrier #7 of group default, peer 3 on node7: gone");
  EXPECT_THROW(std::rethrow_exception(in_context(std::make_exception_ptr(1), {})), DistBackendError);
}

template <class Kind>
std::exception_ptr made(const std::string& reason, const ErrorContext& context = {}) {
  return std::make_exception_ptr(Kind(reason, context));
}

template <class Kind>
bool is_exactly(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DistError& e) {
    return typeid(e) == typeid(Kind);
  }
}

TEST(Errors, OfEveryTypeStayOfIt) {
  const ErrorContext place{.rank = 1};
  EXPECT_TRUE(is_exactly<DistError>(in_context(made<DistError>("x"), place)));
  EXPECT_TRUE(is_exactly<DistBackendError>(in_context(made<DistBackendError>("x"), place)));
  EXPECT_TRUE(is_exactly<DistNetworkError>(with_words(made<DistNetworkError>("x"), "a: ")));
  EXPECT_TRUE(is_exactly<DistStoreError>(with_words(made<DistStoreError>("x"), "a: ")));
}

TEST(Errors, NameAPeerByItsRankInAnotherGroup) {
  const auto error = with_peer(made<DistNetworkError>("gone", {.rank = 1, .peer = 2, .host = "node1"}), 7);
  EXPECT_TRUE(is_exactly<DistNetworkError>(error));
  EXPECT_EQ(message_of(error), "rank 1, peer 7 on node1: gone");
}

// Each layer fills in what the layers below it did not know.
TEST(Errors, KeepTheInnerPlace) {
  const ErrorContext inner{
      .rank = 1, .operation = "send", .sequence = 4, .group = "dp", .peer = 2, .host = "node1"};
  const ErrorContext outer{
      .rank = 6, .operation = "recv", .sequence = 5, .group = "tp", .peer = 3, .host = "node2"};
  const ErrorContext kept = context_of(in_context(made<DistNetworkError>("x", inner), outer));
  EXPECT_EQ(kept.rank, 1);
  EXPECT_EQ(kept.operation, "send");
  EXPECT_EQ(kept.sequence, 4U);
  EXPECT_EQ(kept.group, "dp");
  EXPECT_EQ(kept.peer, 2);
  EXPECT_EQ(kept.host, "node1");
  const ErrorContext rank_zero =
      context_of(in_context(made<DistNetworkError>("x", {.rank = 0, .peer = 0}), outer));
  EXPECT_EQ(rank_zero.rank, 0);
  EXPECT_EQ(rank_zero.peer, 0);
  EXPECT_EQ(rank_zero.group, "tp");
}

TEST(Errors, WordsComeBeforeTheReasonAndBehindThePlace) {
  const auto error =
      with_words(made<DistNetworkError>("lost", {.rank = 2, .peer = 3}), "the group is broken: ");
  EXPECT_EQ(message_of(error), "rank 2, peer 3: the group is broken: lost");
  EXPECT_EQ(reason_of(error), "the group is broken: lost");
  EXPECT_EQ(peer_of(error), 3);
}

TEST(Errors, OfForeignTypesHaveNoPlace) {
  const auto foreign = std::make_exception_ptr(std::runtime_error("odd"));
  const auto number = std::make_exception_ptr(7);
  EXPECT_EQ(reason_of(foreign), "odd");
  EXPECT_EQ(message_of(number), "an exception of an unknown type");
  EXPECT_EQ(reason_of(number), "an exception of an unknown type");
  for (const auto& error : {foreign, number}) {
    EXPECT_EQ(peer_of(error), -1);
    EXPECT_EQ(departed_peer(error), -1);
    EXPECT_EQ(loss_of(error), page::Loss::none);
    EXPECT_TRUE(is_exactly<DistBackendError>(in_context(error, {.rank = 1})));
  }
  EXPECT_EQ(message_of(in_context(foreign, {.rank = 1})), "rank 1: odd");
}

TEST(Errors, ShowHowAPeerEnded) {
  const auto loss = [](const std::string& reason, int peer = 1) {
    return loss_of(made<DistNetworkError>(reason, {.peer = peer}));
  };
  EXPECT_EQ(loss(left_the_group), page::Loss::left);
  EXPECT_EQ(loss(std::string(left_the_group) + in_exception), page::Loss::left_in_exception);
  EXPECT_EQ(loss(std::string(it_died) + ": Connection reset by peer"), page::Loss::died);
  EXPECT_EQ(loss(std::string(it_gave_up) + " because of rank 3: x"), page::Loss::gave_up);
  EXPECT_EQ(loss("it did not send a message before the deadline"), page::Loss::none);
  EXPECT_EQ(loss(it_died, -1), page::Loss::none);  // nobody is named
  EXPECT_EQ(loss(left_the_group, 0), page::Loss::left);
}

TEST(Errors, OnlyAnOrderlyLeaveIsADeparture) {
  EXPECT_EQ(departed_peer(made<DistNetworkError>(left_the_group, {.peer = 3})), 3);
  EXPECT_EQ(departed_peer(made<DistNetworkError>(std::string(left_the_group) + in_exception, {.peer = 0})),
            0);
  EXPECT_EQ(departed_peer(made<DistNetworkError>(it_died, {.peer = 3})), -1);
  EXPECT_EQ(departed_peer(made<DistNetworkError>("rank 2: it has left the group", {.peer = 3})), -1);
}

TEST(Errors, OfALateMessageNameItsDirection) {
  EXPECT_STREQ(late_error(4, true).what(), "peer 4: it did not take a message before the deadline");
  EXPECT_STREQ(late_error(4, false).what(), "peer 4: it did not send a message before the deadline");
}

}  // namespace
}  // namespace dlaunch::internal
