// What a diagnosis makes of the ranks' devices.
#include <gtest/gtest.h>

#include "agent/model/diagnosis.h"
#include "tests/agent/model/made_progress.h"

namespace dlaunch::agent {
namespace {

using page::Operation;
using std::chrono::seconds;
using Sentences = std::vector<std::string>;

// Its device has come so far.
RankProgress on_device(page::Record::OnDevice where, RankProgress progress) {
  progress.on_device = where;
  return progress;
}
RankProgress queued(RankProgress progress) { return on_device(page::Record::queued, std::move(progress)); }
RankProgress begun(RankProgress progress) { return on_device(page::Record::begun, std::move(progress)); }

TEST(DiagnosisOfDevices, TheRankIsNamedWhoseGpuHasNotCome) {
  Diagnosis found = diagnose({group(4, {begun(in(0, 12, seconds(31))), begun(in(1, 12, seconds(30))),
                                        begun(in(2, 12, seconds(29))), queued(in(3, 12, seconds(30)))})});
  EXPECT_EQ(found.sentences,
            Sentences{"rank 3 has called all_reduce #12 of group default, but its GPU has not come to it: it "
                      "still works on what the program gave it before; the other 3 wait for it on their "
                      "GPUs, for up to 31 s"});
  EXPECT_EQ(found.missing, std::vector{3});
  EXPECT_EQ(found.devices, Diagnosis::Devices::some_late);

  // Several, and a rank of which nothing is known. One is ahead: a broadcast does not need all ranks.
  found = diagnose({group(5, {begun(in(0, 13, seconds(9))), queued(in(1, 12, seconds(31))),
                              queued(in(2, 12, seconds(30))), in(3, 12, seconds(29))})});
  EXPECT_EQ(found.sentences,
            Sentences{"ranks 1 and 2 have called all_reduce #12 of group default, but their GPUs have not "
                      "come to it: they still work on what the program gave them before; rank 0 waits for "
                      "them on its GPU, for up to 9 s; nothing is known of rank 4"});
  EXPECT_EQ(found.missing, (std::vector{1, 2}));
  found = diagnose({group(2, {begun(in(0, 3, seconds(2))), queued(in(1, 3, seconds(1)))})});
  EXPECT_TRUE(found.sentences.at(0).ends_with("; the other one waits for it on its GPU, for up to 2 s"))
      << found.sentences[0];
}

TEST(DiagnosisOfDevices, AllGpusMayBeInTheCollective) {
  RankProgress stopped = begun(in(1, 3, seconds(1)));
  Diagnosis found = diagnose({group(2, {begun(in(0, 3, seconds(2))), stopped})});
  EXPECT_EQ(found.sentences,
            Sentences{"all 2 ranks have been in all_reduce #3 of group default for 2 s; all GPUs are in it"});
  EXPECT_TRUE(found.missing.empty());
  EXPECT_EQ(found.devices, Diagnosis::Devices::all_in_it);
  // There are other explanations.
  stopped.condition = Condition::stopped;
  EXPECT_EQ(diagnose({group(2, {begun(in(0, 3, seconds(2))), stopped})}).devices,
            Diagnosis::Devices::not_known);
  const RankProgress other = begun(in(1, 3, seconds(1), Operation::broadcast));
  EXPECT_EQ(diagnose({group(2, {begun(in(0, 3, seconds(2))), other})}).devices,
            Diagnosis::Devices::not_known);
  EXPECT_EQ(diagnose({group(3, {begun(in(0, 3, seconds(2))), begun(in(1, 3, seconds(2)))})}).devices,
            Diagnosis::Devices::not_known);
  EXPECT_EQ(diagnose({group(2, {begun(in(0, 3, seconds(2))), in(1, 3, seconds(2))})}).sentences,
            Sentences{"all 2 ranks have been in all_reduce #3 of group default for 2 s"});
}

TEST(DiagnosisOfDevices, GpusThatHaveNotComeAreNoCauseIfOthersAre) {
  const RankProgress late = queued(in(1, 3, seconds(1)));
  // Every GPU works.
  Diagnosis found = diagnose({group(2, {queued(in(0, 3, seconds(2))), late})});
  EXPECT_EQ(found.sentences, Sentences{"all 2 ranks have been in all_reduce #3 of group default for 2 s; the "
                                       "GPUs of ranks 0 and 1 have not come to it"});
  EXPECT_TRUE(found.missing.empty());
  EXPECT_EQ(found.devices, Diagnosis::Devices::not_known);
  // A rank has not called it.
  found = diagnose({group(3, {begun(in(0, 3, seconds(2))), late, done(2, 2)})});
  EXPECT_EQ(found.sentences,
            Sentences{"rank 2 never entered all_reduce #3 of group default; the other 2 have waited 2 s; the "
                      "GPU of rank 1 has not come to it"});
  EXPECT_EQ(found.missing, std::vector{2});
  EXPECT_EQ(found.devices, Diagnosis::Devices::not_known);
  // A process is stopped.
  RankProgress stopped = begun(in(2, 3, seconds(1)));
  stopped.condition = Condition::stopped;
  found = diagnose({group(3, {begun(in(0, 3, seconds(2))), late, stopped})});
  EXPECT_EQ(
      found.sentences,
      Sentences{"rank 2 is stopped in all_reduce #3 of group default, for which ranks have waited 2 s"});
  EXPECT_EQ(found.missing, std::vector{2});
  EXPECT_EQ(found.devices, Diagnosis::Devices::not_known);
}

TEST(DiagnosisOfDevices, AGpuThatWaitsElsewhereIsNotTheCause) {
  // That of rank 1 is in group b, in which rank 2 is late.
  Diagnosis found = diagnose({group(2, {begun(in(0, 3, seconds(9))), queued(in(1, 3, seconds(9)))}, "a"),
                              group(2, {begun(in(1, 8, seconds(5))), queued(in(2, 8, seconds(5)))}, "b", 1)});
  EXPECT_EQ(found.missing, std::vector{2});
  EXPECT_TRUE(found.sentences.at(0).starts_with("rank 2 has called all_reduce #8 of group b,"));
  EXPECT_EQ(found.devices, Diagnosis::Devices::some_late);
  // Two groups in different orders.
  found = diagnose({group(2, {begun(in(0, 3, seconds(9))), queued(in(1, 3, seconds(9)))}, "a"),
                    group(2, {queued(in(0, 8, seconds(5))), begun(in(1, 8, seconds(5)))}, "b")});
  EXPECT_TRUE(found.missing.empty());
  EXPECT_EQ(found.devices, Diagnosis::Devices::not_known);
  // It is in a message.
  RankProgress receives = queued(in(1, 3, seconds(9)));
  receives.before = Operation::recv;
  receives.peer = 0;
  found = diagnose({group(2, {begun(in(0, 3, seconds(9))), receives}, "a")});
  EXPECT_EQ(found.sentences, Sentences{"all 2 ranks have been in all_reduce #3 of group a for 9 s; rank 1 is "
                                       "in recv from rank 0"});
  EXPECT_TRUE(found.missing.empty());
}

TEST(DiagnosisOfDevices, TheReceiversGpuMayBeLateForAMessage) {
  const Diagnosis found = diagnose({group(2, {begun(otherwise(0, Operation::send, seconds(4), 1)),
                                              queued(otherwise(1, Operation::recv, seconds(5), 0))})});
  EXPECT_EQ(found.sentences, (Sentences{"rank 0 has been in send to rank 1 of group default for 4 s",
                                        "rank 1 has been in recv from rank 0 of group default for 5 s; the "
                                        "GPU of rank 1 has not come to it"}));
  EXPECT_EQ(found.missing, std::vector{1});
}

}  // namespace
}  // namespace dlaunch::agent
