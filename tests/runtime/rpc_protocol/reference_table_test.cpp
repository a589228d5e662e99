// One worker's references, event by event. The protocol among several: reference_simulation_test.cpp.

#include "runtime/rpc_protocol/reference_table.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

using Kind = ReferenceMessage::Kind;

std::string text(const ReferenceAction& action) {
  if (const auto* const send = std::get_if<SendReference>(&action)) {
    const char* const names[] = {"", "add", "drop", "settled", "ask", "renew"};
    return std::string(names[static_cast<int>(send->message.kind)]) + " " +
           std::to_string(send->message.number) + " to " + std::to_string(send->to);
  }
  if (std::holds_alternative<ReferenceReady>(action)) return "ready";
  if (std::holds_alternative<ReferenceBroken>(action)) return "broken";
  return "destroy";
}

class References : public testing::Test {
 protected:
  // The actions since the last call: "ready, settled 4 to 2".
  std::string done() {
    std::string all;
    for (const ReferenceAction& action : actions_) all += (all.empty() ? "" : ", ") + text(action);
    actions_.clear();
    return all;
  }

  ReferenceTable table_{0};
  ReferenceTable::Actions actions_;
  const ReferenceId of_two_{2, 2, 1};  // another worker's
};

TEST_F(References, AnOwnValueLivesAsLongAsItsHandles) {
  const ReferenceId id = table_.create();
  EXPECT_TRUE(table_.is_ready(id));
  table_.hold(id);
  table_.release(id, actions_);
  EXPECT_EQ(done(), "");
  table_.release(id, actions_);
  EXPECT_EQ(done(), "destroy");
  EXPECT_EQ(table_.owned(), 0U);
}

TEST_F(References, AnOwnValueLivesAsLongAsItsHolders) {
  const ReferenceId id = table_.create();
  EXPECT_TRUE(table_.on_message(1, {Kind::add, id, 5}, actions_));
  table_.release(id, actions_);
  table_.on_message(1, {Kind::drop, id, 4}, actions_);  // of an earlier time
  EXPECT_EQ(done(), "");
  table_.on_message(1, {Kind::drop, id, 5}, actions_);
  EXPECT_EQ(done(), "destroy");
  EXPECT_FALSE(table_.on_message(1, {Kind::add, id, 6}, actions_));
}

TEST_F(References, AHolderThatDiesHoldsNothing) {
  const ReferenceId id = table_.create();
  table_.on_message(1, {Kind::add, id, 5}, actions_);
  table_.release(id, actions_);
  table_.on_dead(1, actions_);
  EXPECT_EQ(done(), "destroy");
  EXPECT_FALSE(table_.on_message(1, {Kind::add, id, 6}, actions_));
}

TEST_F(References, APassedReferenceIsKeptUntilItIsSettled) {
  const ReferenceId id = table_.create();
  const std::uint64_t token = table_.pass(id, 1);
  table_.release(id, actions_);
  table_.on_message(2, {Kind::settled, {}, token}, actions_);  // it was not passed to that one
  EXPECT_EQ(done(), "");
  table_.ask(token, actions_);
  EXPECT_EQ(done(), "ask 1 to 1");
  table_.on_message(1, {Kind::settled, {}, token}, actions_);
  EXPECT_EQ(done(), "destroy");
  table_.ask(token, actions_);
  EXPECT_EQ(done(), "");
}

TEST_F(References, AReceiverJoinsAndThenSettles) {
  EXPECT_TRUE(table_.on_passed(1, of_two_, 7, actions_));
  EXPECT_EQ(done(), "add 1 to 2");
  EXPECT_FALSE(table_.is_ready(of_two_));
  EXPECT_TRUE(table_.on_passed(3, of_two_, 8, actions_));
  EXPECT_EQ(done(), "");
  table_.on_acknowledged(2, {Kind::add, of_two_, 1}, true, actions_);
  EXPECT_EQ(done(), "ready, settled 7 to 1, settled 8 to 3");
  EXPECT_TRUE(table_.on_passed(1, of_two_, 9, actions_));
  EXPECT_EQ(done(), "ready, settled 9 to 1");
  for (int i = 0; i < 3; ++i) table_.release(of_two_, actions_);
  EXPECT_EQ(done(), "drop 1 to 2");
  EXPECT_EQ(table_.held(), 0U);
}

TEST_F(References, AWorkerThatJoinsDropsAfterwards) {
  table_.on_passed(1, of_two_, 7, actions_);
  table_.release(of_two_, actions_);
  EXPECT_EQ(done(), "add 1 to 2");
  table_.on_acknowledged(2, {Kind::add, of_two_, 1}, true, actions_);
  EXPECT_EQ(done(), "ready, settled 7 to 1, drop 1 to 2");
}

TEST_F(References, AMessageThatWasAskedForIsRejected) {
  table_.on_message(1, {Kind::ask, {}, 7}, actions_);
  EXPECT_EQ(done(), "settled 7 to 1");
  EXPECT_FALSE(table_.on_passed(1, of_two_, 7, actions_));
  EXPECT_EQ(done(), "");
  table_.on_passed(1, of_two_, 8, actions_);
  done();
  table_.on_message(1, {Kind::ask, {}, 8}, actions_);  // it has come, and is settled when this one has joined
  EXPECT_EQ(done(), "");
}

TEST_F(References, AReferenceIsBrokenIfItsOwnerIsDeadOrDoesNotKnowIt) {
  table_.on_passed(1, of_two_, 7, actions_);
  done();
  table_.on_acknowledged(2, {Kind::add, of_two_, 1}, false, actions_);
  EXPECT_EQ(done(), "broken, settled 7 to 1");
  table_.release(of_two_, actions_);
  EXPECT_EQ(done(), "");
  table_.on_passed(1, of_two_, 8, actions_);
  done();
  table_.on_dead(2, actions_);
  EXPECT_EQ(done(), "broken, settled 8 to 1");
  table_.on_passed(1, {2, 2, 9}, 10, actions_);
  EXPECT_EQ(done(), "broken, settled 10 to 1");
}

TEST_F(References, AValueElsewhereIsCreatedAndDropped) {
  const auto [id, epoch] = table_.create_at(1);
  EXPECT_FALSE(table_.is_ready(id));
  table_.created(id, actions_);
  EXPECT_EQ(done(), "ready");
  table_.release(id, actions_);
  EXPECT_EQ(done(), "drop " + std::to_string(epoch) + " to 1");
}

TEST_F(References, ACreationThatFailsIsDropped) {
  const auto [id, epoch] = table_.create_at(1);
  table_.creation_failed(id, actions_);
  EXPECT_EQ(done(), "drop " + std::to_string(epoch) + " to 1, broken");
  table_.release(id, actions_);
  EXPECT_EQ(table_.held(), 0U);
}

TEST_F(References, ARequestToCreateWhatWasDroppedIsRejected) {
  const ReferenceId id{0, 1, 3};
  table_.on_message(1, {Kind::drop, id, 2}, actions_);
  EXPECT_FALSE(table_.on_create(1, id, 2));
  const ReferenceId other{0, 1, 4};
  EXPECT_TRUE(table_.on_create(1, other, 5));
  EXPECT_FALSE(table_.on_create(1, other, 5));
  table_.on_message(1, {Kind::drop, other, 5}, actions_);
  EXPECT_EQ(done(), "destroy");
}

TEST_F(References, OwnersUsersAndReceiversOfTokensAreToBeReached) {
  using Workers = std::set<WorkerId>;
  EXPECT_TRUE(table_.needed().empty() && table_.users().empty());
  EXPECT_TRUE(table_.on_passed(1, of_two_, 7, actions_));
  EXPECT_EQ(table_.needed(), Workers{2});
  const ReferenceId own = table_.create();
  EXPECT_EQ(table_.needed(), Workers{2}) << "an own value needs nobody";
  const std::uint64_t token = table_.pass(own, 3);
  EXPECT_EQ(table_.needed(), (Workers{2, 3}));
  EXPECT_TRUE(table_.on_message(3, {Kind::add, own, 1}, actions_));
  table_.on_message(3, {Kind::settled, {}, token}, actions_);
  EXPECT_EQ(table_.needed(), Workers{2});
  EXPECT_EQ(table_.users(), Workers{3});
  EXPECT_TRUE(table_.on_message(3, {Kind::renew, {}, 0}, actions_));
  table_.on_dead(3, actions_);
  EXPECT_FALSE(table_.on_message(3, {Kind::renew, {}, 0}, actions_)) << "it learns that it is given up";
  EXPECT_EQ(table_.users(), Workers{});
  table_.on_dead(2, actions_);
  EXPECT_EQ(table_.needed(), Workers{}) << "the reference is broken";
}

TEST(ReferenceMessage, IsReadAsItWasWritten) {
  const ReferenceMessage message{Kind::drop, {1, 2, 3}, 4};
  const std::string bytes = to_bytes(message);
  EXPECT_EQ(parse_reference_message(bytes), message);
  EXPECT_FALSE(parse_reference_message(bytes + "x"));
  EXPECT_FALSE(parse_reference_message(bytes.substr(1)));
  EXPECT_FALSE(parse_reference_message('\6' + bytes.substr(1)));
}

}  // namespace
}  // namespace dlaunch::internal
