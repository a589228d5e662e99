#include "agent/model/diagnosis.h"

#include <gtest/gtest.h>

#include "tests/agent/model/made_progress.h"

namespace dlaunch::agent {
namespace {

using page::Operation;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Sentences = std::vector<std::string>;

TEST(Diagnosis, NothingIsReportedIfNoRankWaits) {
  EXPECT_TRUE(diagnose({}).sentences.empty());
  const Diagnosis found = diagnose({group(2, {done(0, 5), done(1, 4)})});
  EXPECT_TRUE(found.sentences.empty());
  EXPECT_TRUE(found.missing.empty());
}

TEST(Diagnosis, TheMissingRankIsNamed) {
  std::vector<RankProgress> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.push_back(rank == 3 ? done(3, 4181) : in(rank, 4182, seconds(24 + rank)));
  const Diagnosis found = diagnose({group(8, ranks)});
  EXPECT_EQ(
      found.sentences,
      Sentences{"rank 3 never entered all_reduce #4182 of group default; the other 7 have waited 31 s"});
  EXPECT_EQ(found.missing, std::vector{3});
}

RankProgress called_at(std::string call_site, RankProgress progress) {
  progress.call_site = std::move(call_site);
  return progress;
}

TEST(Diagnosis, SaysWhereTheRanksCallIfThatIsKnown) {
  const Diagnosis one = diagnose({group(2, {called_at("train.py:7 in step", in(0, 6, seconds(2))),
                                            called_at("train.py:9 in late", done(1, 5))})});
  EXPECT_EQ(
      one.sentences,
      Sentences{"rank 1 never entered all_reduce #6 of group default; the other one has waited 2 s; rank 0 "
                "calls it at train.py:7 in step; the last call of rank 1 was at train.py:9 in late"});
  const Diagnosis several = diagnose(
      {group(6, {called_at("train.py:7", in(0, 6, seconds(2))), called_at("eval.py:3", in(1, 6, seconds(2))),
                 called_at("train.py:7", in(2, 6, seconds(2))), in(3, 6, seconds(2)),
                 called_at("a\a.py:1", done(4, 5)), called_at("a\a.py:1", done(5, 5))})});
  EXPECT_EQ(
      several.sentences,
      Sentences{"ranks 4 and 5 never entered all_reduce #6 of group default; the other 4 have waited 2 s; "
                "rank 1 calls it at eval.py:3; ranks 0 and 2 call it at train.py:7; the last calls of ranks "
                "4 and 5 were at a .py:1"});
  std::vector<RankProgress> many;
  for (int rank = 0; rank < 6; ++rank)
    many.push_back(called_at("train.py:" + std::to_string(rank), in(rank, 6, seconds(2))));
  const std::string sentence = diagnose({group(6, many)}).sentences.front();
  EXPECT_TRUE(sentence.ends_with("; rank 3 calls it at train.py:3")) << sentence;
}

TEST(Diagnosis, SaysWhereTheRanksWaitForMessages) {
  RankProgress receives = called_at("train.py:7 in get", done(1, 5));
  receives.operation = Operation::recv;
  receives.peer = 0;
  receives.waited = seconds(2);
  EXPECT_EQ(
      diagnose({group(2, {called_at("train.py:9 in late", done(0, 5)), receives})}).sentences,
      Sentences{"rank 1 has been in recv from rank 0 of group default for 2 s; rank 1 calls it at train.py:7 "
                "in get; the last call of rank 0 was at train.py:9 in late"});
}

TEST(Diagnosis, ReportsOfNodesAreMerged) {
  const Diagnosis found = diagnose(
      {group(4, {in(0, 9, seconds(2)), in(1, 9, seconds(3))}), group(4, {done(2, 8), in(3, 9, seconds(1))})});
  EXPECT_EQ(found.sentences,
            Sentences{"rank 2 never entered all_reduce #9 of group default; the other 3 have waited 3 s"});
}

TEST(Diagnosis, RanksWithoutRecordsAreNotBlamed) {
  const Diagnosis found = diagnose({group(5, {in(0, 9, seconds(2)), done(1, 8)})});
  EXPECT_EQ(found.sentences,
            Sentences{"rank 1 never entered all_reduce #9 of group default; one other has waited 2 s; "
                      "nothing is known of ranks 2, 3 and 4"});
  EXPECT_EQ(found.missing, std::vector{1});
  const Diagnosis lone = diagnose({group(2, {in(0, 9, seconds(2))})});
  EXPECT_EQ(
      lone.sentences,
      Sentences{"rank 0 has been in all_reduce #9 of group default for 2 s; nothing is known of rank 1"});
  EXPECT_TRUE(lone.missing.empty());
}

TEST(Diagnosis, OnlyTheFirstOfManyRanksAreNamed) {
  std::vector<RankProgress> ranks;
  for (int rank = 0; rank < 20; ++rank) ranks.push_back(rank < 12 ? done(rank, 1) : in(rank, 2, seconds(1)));
  EXPECT_EQ(diagnose({group(20, ranks)}).sentences.front(),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more never entered all_reduce #2 of group default; the other "
            "8 have waited 1 s");
  const Diagnosis unknown = diagnose({group(1'000'000, {in(0, 2, seconds(1))})});
  EXPECT_NE(
      unknown.sentences.front().find("nothing is known of ranks 1, 2, 3, 4, 5, 6, 7, 8 and 999991 more"),
      std::string::npos)
      << unknown.sentences.front();
}

TEST(Diagnosis, AllHaveEnteredAndItDoesNotEnd) {
  const Diagnosis found = diagnose({group(2, {in(0, 3, seconds(2)), in(1, 3, seconds(1))})});
  EXPECT_EQ(found.sentences, Sentences{"all 2 ranks have been in all_reduce #3 of group default for 2 s"});
  EXPECT_TRUE(found.missing.empty());
}

TEST(Diagnosis, StoppedProcessIsReportedAndIsTheCauseIfAllRanksEntered) {
  RankProgress stopped = in(1, 3, seconds(1));
  stopped.condition = Condition::stopped;
  const Diagnosis found = diagnose({group(2, {in(0, 3, seconds(2)), stopped})});
  EXPECT_EQ(
      found.sentences,
      Sentences{"rank 1 is stopped in all_reduce #3 of group default, for which ranks have waited 2 s"});
  EXPECT_EQ(found.missing, std::vector{1});
}

TEST(Diagnosis, EndedRankIsReported) {
  RankProgress ended = done(1, 2);
  ended.condition = Condition::ended;
  EXPECT_EQ(diagnose({group(2, {in(0, 3, seconds(2)), ended})}).sentences,
            Sentences{"rank 1 never entered all_reduce #3 of group default; the other one has waited 2 s; "
                      "rank 1 has ended"});
  ended.how_ended = "was stopped by dlaunch";
  RankProgress same = ended;
  same.rank = 2;
  EXPECT_EQ(diagnose({group(4, {in(0, 3, seconds(2)), ended, same})}).sentences,
            Sentences{"ranks 1 and 2 never entered all_reduce #3 of group default; one other has waited 2 s; "
                      "ranks 1 and 2 were stopped by dlaunch; nothing is known of rank 3"});
}

TEST(Diagnosis, RankPastTheCollectiveIsNeitherMissingNorWaiting) {
  // A broadcast's source need not wait for those that receive.
  const Diagnosis found =
      diagnose({group(3, {done(0, 5), in(1, 5, seconds(1), Operation::broadcast), done(2, 4)})});
  EXPECT_EQ(found.sentences,
            Sentences{"rank 2 never entered broadcast #5 of group default; one other has waited 1 s"});
}

TEST(Diagnosis, EarliestCollectiveCountsIfSomeRanksAreAhead) {
  RankProgress ahead = in(0, 3, seconds(4));
  ahead.entered = 7;  // several under way
  EXPECT_EQ(diagnose({group(2, {ahead, done(1, 2)})}).sentences,
            Sentences{"rank 1 never entered all_reduce #3 of group default; the other one has waited 4 s"});
}

TEST(Diagnosis, DifferentCollectivesAreReported) {
  EXPECT_EQ(
      diagnose(
          {group(3, {in(0, 3, seconds(2)), in(1, 3, seconds(1)), in(2, 3, seconds(1), Operation::barrier)})})
          .sentences,
      Sentences{
          "all 3 ranks have been in all_reduce #3 of group default for 2 s; rank 2 is in barrier instead"});
}

TEST(Diagnosis, UnknownFieldsAreTakenFromOtherRanks) {
  EXPECT_EQ(diagnose({group(3, {in(0, 3, {}, Operation::none), in(1, 3, seconds(1)), done(2, 2)})}).sentences,
            Sentences{"rank 2 never entered all_reduce #3 of group default; the other 2 have waited 1 s"});
  EXPECT_EQ(
      diagnose({group(2, {in(0, 3, {}, Operation::none), done(1, 2)})}).sentences,
      Sentences{"rank 1 has not entered collective #3 of group default yet; the other one has waited 0 ms"});
}

TEST(Diagnosis, RankThatWaitsElsewhereIsNotTheCause) {
  // Rank 1 has not come to the default group's since it waits in group 1 for rank 2, which is in no group.
  const Diagnosis found =
      diagnose({group(3, {in(0, 3, seconds(9)), done(1, 2), done(2, 2)}),
                group(2, {in(1, 8, seconds(5), Operation::barrier), done(2, 7)}, "1", 1)});
  EXPECT_EQ(found.missing, std::vector{2});
  EXPECT_EQ(
      found.sentences,
      (Sentences{"ranks 1 and 2 never entered all_reduce #3 of group default; the other one has waited 9 s",
                 "rank 2 never entered barrier #8 of group 1; the other one has waited 5 s"}));
}

TEST(Diagnosis, DeadlockOfTwoGroupsBlamesNoRank) {
  const Diagnosis found = diagnose(
      {group(2, {in(0, 3, seconds(9)), done(1, 2)}, "a"), group(2, {done(0, 2), in(1, 3, seconds(9))}, "b")});
  EXPECT_EQ(found.sentences.size(), 2U);
  EXPECT_TRUE(found.missing.empty());
}

TEST(Diagnosis, ARankThatIsLateForAMomentHasNotEnteredYet) {
  const auto sentence = [](RankProgress absent, Duration waited) {
    const auto found = diagnose({group(3, {in(0, 5, waited), in(2, 5, waited), std::move(absent)})});
    return found.sentences.empty() ? "" : found.sentences[0];
  };
  EXPECT_EQ(sentence(done(1, 4), milliseconds(99)),
            "rank 1 has not entered all_reduce #5 of group default yet; the other 2 have waited 99 ms");
  EXPECT_TRUE(sentence(done(1, 4), milliseconds(100)).starts_with("rank 1 never entered all_reduce #5"));
  RankProgress stopped = done(1, 4);
  stopped.condition = Condition::stopped;
  EXPECT_TRUE(sentence(stopped, milliseconds(1)).starts_with("rank 1 never entered all_reduce #5"));
  RankProgress ended = done(1, 4);
  ended.how_ended = "returned 0";
  EXPECT_TRUE(sentence(ended, milliseconds(1)).starts_with("rank 1 never entered all_reduce #5"));
}

TEST(Diagnosis, AFailedCollectiveCountsAsWaiting) {
  // A peer's end made the call fail at once; the program continues until its own end.
  RankProgress failed = in(0, 5, milliseconds(3));
  failed.inside = false;
  EXPECT_EQ(diagnose({group(2, {failed, done(1, 4)})}).sentences,
            Sentences{"rank 1 never entered all_reduce #5 of group default; the other one has waited 3 ms"});
}

TEST(Diagnosis, DestroyedGroupsCountOnlyIfNoRankWaitsInAnother) {
  RankProgress failed = in(0, 5, milliseconds(3));
  failed.inside = false;
  failed.left = true;
  const GroupProgress old = group(2, {failed, done(1, 4)}, "old");
  EXPECT_EQ(diagnose({old}).sentences.size(), 1U);
  const Diagnosis found = diagnose({old, group(2, {in(0, 2, seconds(1)), done(1, 1)}, "new")});
  EXPECT_EQ(found.sentences,
            Sentences{"rank 1 never entered all_reduce #2 of group new; the other one has waited 1 s"});
}

TEST(Diagnosis, TheNumberOfSentencesIsBounded) {
  std::vector<GroupProgress> many;
  for (int i = 0; i < 50; ++i)
    many.push_back(group(2, {in(0, 2, seconds(1)), done(1, 1)}, std::to_string(i)));
  EXPECT_EQ(diagnose(many).sentences.size(), Diagnosis::max_sentences);
}

TEST(Diagnosis, OtherWaitsAreReportedIfNoRankIsInACollective) {
  const auto barrier = [](int rank) {
    RankProgress progress = otherwise(rank, Operation::monitored_barrier, seconds(4 + rank));
    progress.needs_all = true;
    return progress;
  };
  Diagnosis found = diagnose({group(3, {barrier(0), barrier(1), done(2, 3)})});
  EXPECT_EQ(found.sentences,
            Sentences{"ranks 0 and 1 have been in monitored_barrier of group default for 5 s; rank 2 has not "
                      "come"});
  EXPECT_EQ(found.missing, std::vector{2});

  // The missing rank waits itself: the others may be the cause.
  found = diagnose({group(3, {barrier(0), barrier(1), otherwise(2, Operation::recv, seconds(9))})});
  EXPECT_EQ(found.sentences,
            (Sentences{"rank 2 has been in recv from any rank of group default for 9 s",
                       "ranks 0 and 1 have been in monitored_barrier of group default for 5 s; rank 2 has "
                       "not come"}));
  EXPECT_TRUE(found.missing.empty());

  // A new group may lack some ranks.
  found = diagnose({group(3, {otherwise(0, Operation::new_group, seconds(1)), done(1, 3), done(2, 3)})});
  EXPECT_EQ(found.sentences, Sentences{"rank 0 has been in new_group of group default for 1 s"});
  EXPECT_TRUE(found.missing.empty());

  // A collective is the better explanation.
  found =
      diagnose({group(3, {in(0, 4, seconds(2)), otherwise(1, Operation::recv, seconds(3), 2), done(2, 3)})});
  EXPECT_EQ(found.sentences,
            Sentences{"ranks 1 and 2 never entered all_reduce #4 of group default; the other "
                      "one has waited 2 s; rank 1 is in recv from rank 2"});
}

TEST(Diagnosis, RanksThatDoNotComeToTheFirstGroupAreNamedWithTheirState) {
  const auto forming = [](int rank) {
    RankProgress progress = otherwise(rank, Operation::init_process_group, seconds(4 + rank));
    progress.entered = progress.done = 0;
    progress.needs_all = true;
    return progress;
  };
  GroupProgress here{GroupProgress::outside, "", 4, {}, {forming(0), forming(1), done(2, 0), done(3, 0)}};
  Diagnosis found = diagnose({here});
  EXPECT_EQ(found.sentences,
            Sentences{"ranks 0 and 1 have been in init_process_group for 5 s; ranks 2 and 3 have not come"});
  EXPECT_EQ(found.missing, (std::vector{2, 3}));
  here.here[2].condition = Condition::stopped;
  here.here[3].condition = Condition::ended;
  here.here[3].how_ended = "returned 0";
  EXPECT_EQ(diagnose({here}).sentences,
            Sentences{"ranks 0 and 1 have been in init_process_group for 5 s; ranks 2 and 3 have not come; "
                      "rank 2 is stopped; rank 3 returned 0"});
  here.here = {done(2, 0), done(3, 0)};
  EXPECT_TRUE(diagnose({here}).sentences.empty()) << "no rank waits";
}

TEST(Diagnosis, KeysThatRanksWaitForAreNamed) {
  const auto waits = [](int rank, const std::string& key) {
    RankProgress progress = otherwise(rank, Operation::store_wait, seconds(4 + rank));
    progress.state = "waits for the key '" + key + "' of a store";
    return progress;
  };
  GroupProgress here{GroupProgress::outside, "", 4, {}, {waits(0, "a"), waits(1, "b\x1b[2J"), waits(2, "a")}};
  const Diagnosis found = diagnose({here});
  EXPECT_EQ(found.sentences,
            Sentences{"ranks 0 and 2 wait for the key 'a' of a store; rank 1 waits for the key "
                      "'b' of a store, for 6 s"});
  EXPECT_TRUE(found.missing.empty());
  here.here.clear();
  for (int rank = 0; rank < 100; ++rank)
    here.here.push_back(waits(rank, std::string(100, 'x') + std::to_string(rank)));
  EXPECT_LT(diagnose({here}).sentences.at(0).size(), 600U);
}

TEST(Diagnosis, CallsWhoseAnswersRanksWaitForAreNamed) {
  RankProgress waits = otherwise(0, Operation::remote_call, seconds(4), 2);
  waits.state = "waits for the answer of worker ps to 'add'";
  GroupProgress here{GroupProgress::outside, "", 3, {}, {waits, done(1, 0), done(2, 0)}};
  Diagnosis found = diagnose({here});
  EXPECT_EQ(found.sentences, Sentences{"rank 0 waits for the answer of worker ps to 'add', for 4 s"});
  EXPECT_EQ(found.missing, std::vector{2});
  here.here[2].condition = Condition::stopped;
  EXPECT_EQ(diagnose({here}).sentences,
            Sentences{"rank 0 waits for the answer of worker ps to 'add', for 4 s; rank 2 is stopped"});
}

RankProgress stuck(int rank, StalledLink link) {
  RankProgress progress = in(rank, 5, seconds(6));
  progress.link = link;
  return progress;
}

TEST(Diagnosis, AConnectionThatDoesNotMoveIsFound) {
  const auto link = [](std::vector<RankProgress> ranks) {
    return diagnose({group(3, std::move(ranks))}).link;
  };
  EXPECT_FALSE(link({in(0, 5, seconds(6)), in(1, 5, seconds(6)), in(2, 5, seconds(6))}));
  const auto one = link({stuck(0, {2, false, 5, seconds(6)}), in(1, 5, seconds(6)), in(2, 5, seconds(6))});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->from, 0);
  EXPECT_EQ(one->link, (StalledLink{2, false, 5, seconds(6)}));
  EXPECT_FALSE(one->both_ways);
  // The longest, and a full one only if there is no other.
  const auto some = link({stuck(0, {2, true, 0, seconds(60)}), stuck(1, {2, false, 4, seconds(3)}),
                          stuck(2, {0, false, 5, seconds(6)})});
  ASSERT_TRUE(some);
  EXPECT_EQ(some->from, 2);
  EXPECT_FALSE(some->both_ways);
  EXPECT_FALSE(link({done(0, 5), done(1, 5)})) << "no rank waits";
}

TEST(Diagnosis, BothEndsOfAConnectionMayWaitForAnAcknowledgement) {
  const auto link = [](StalledLink first, StalledLink second) {
    return *diagnose({group(2, {stuck(0, first), stuck(1, second)})}).link;
  };
  const StalledLink there{1, false, 4, seconds(3)};
  EXPECT_TRUE(link(there, {0, false, 5, seconds(6)}).both_ways);
  EXPECT_EQ(link(there, {0, false, 5, seconds(6)}).from, 1) << "the longer wait";
  EXPECT_EQ(link(there, {0, false, 5, seconds(6)}).link, (StalledLink{0, false, 5, seconds(6)}));
  EXPECT_FALSE(link(there, {0, true, 0, seconds(6)}).both_ways);
  EXPECT_FALSE(link({1, true, 0, seconds(3)}, {0, true, 0, seconds(6)}).both_ways);
}

TEST(Diagnosis, TheSenderOfAMissingMessageIsTheCause) {
  const auto recv = [](int rank, int peer) {
    return otherwise(rank, Operation::recv, seconds(4 + rank), peer);
  };
  Diagnosis found = diagnose({group(3, {done(0, 3), recv(1, 0), done(2, 3)})});
  EXPECT_EQ(found.sentences, Sentences{"rank 1 has been in recv from rank 0 of group default for 5 s"});
  EXPECT_EQ(found.missing, std::vector{0});

  // The missing rank waits itself, for the third.
  found = diagnose({group(3, {recv(0, 2), recv(1, 0), done(2, 3)})});
  EXPECT_EQ(
      found.sentences,
      Sentences{"ranks 0 and 1 have been in recv of group default for 5 s: 0 from rank 2, 1 from rank 0"});
  EXPECT_EQ(found.missing, std::vector{2});

  // No rank is the cause of a circle, nor of a wait for a rank that waits in another group.
  EXPECT_TRUE(diagnose({group(2, {recv(0, 1), recv(1, 0)})}).missing.empty());
  EXPECT_TRUE(diagnose({group(2, {done(0, 3), recv(1, 0)}),
                        group(2, {otherwise(0, Operation::send, seconds(1), 1), done(1, 3)}, "other")})
                  .missing.empty());
}

}  // namespace
}  // namespace dlaunch::agent
