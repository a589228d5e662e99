// Ranks that are bound to processors of their own have them; ranks that share one have not.

#include "runtime/shared_memory/rank_processors.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "runtime/shared_memory/processors.h"
#include "runtime/shared_memory/segment.h"

namespace dlaunch::internal {
namespace {

// Of this process.
std::vector<std::size_t> usable() {
  std::vector<std::size_t> found;
  const ProcessorSet set = usable_processor_set();
  for (std::size_t i = 0; i < set.size() * 64; ++i) {
    if ((set[i / 64] >> i % 64 & 1U) != 0) found.push_back(i);
  }
  return found;
}

void bind_to(std::size_t processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

// 1 for each rank that finds enough processors when all have mapped the segment, bound to these.
std::vector<int> answers_of(const std::vector<std::size_t>& bound_to) {
  std::string why;
  const int fd = Segment::make_file(bound_to.size(), why);
  EXPECT_GE(fd, 0) << why;
  int mapped[2];
  int go[2];
  EXPECT_EQ(pipe(mapped), 0);
  EXPECT_EQ(pipe(go), 0);
  std::vector<pid_t> ranks;
  for (const std::size_t processor : bound_to) {
    ranks.push_back(fork());
    if (ranks.back() != 0) continue;
    bind_to(processor);
    const auto segment = Segment::map(fd, bound_to.size(), why);
    RankProcessors processors(segment->processors(), bound_to.size(), usable_processors());
    char byte = 0;
    if (write(mapped[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(9);
    _exit(processors.suffice() ? 1 : 0);
  }
  char byte = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ(read(mapped[0], &byte, 1), 1);
  std::vector<int> answers;
  for (std::size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ(write(go[1], &byte, 1), 1);
  for (const pid_t rank : ranks) {
    int status = -1;
    EXPECT_EQ(waitpid(rank, &status, 0), rank);
    answers.push_back(WEXITSTATUS(status));
  }
  for (const int end : {fd, mapped[0], mapped[1], go[0], go[1]}) close(end);
  return answers;
}

TEST(RankProcessors, AreThoseToWhichTheRanksAreBound) {
  const std::vector<std::size_t> all = usable();
  ASSERT_EQ(all.size(), usable_processors());
  EXPECT_EQ(answers_of({all[0], all[0]}), (std::vector<int>{0, 0}));
  if (all.size() < 2) GTEST_SKIP() << "this machine has one processor";
  EXPECT_EQ(answers_of({all[0], all[1]}), (std::vector<int>{1, 1}));
}

TEST(RankProcessors, AreNotKnownUntilAllHaveMappedTheSegment) {
  shared::Processors all{};
  RankProcessors bound(all, 2, 1);
  all.sets[0] = 3;
  all.processes = 1;
  EXPECT_FALSE(bound.suffice());
  all.processes = 2;
  EXPECT_TRUE(bound.suffice());
  RankProcessors free(all, 2, 2);
  EXPECT_TRUE(free.suffice());
}

}  // namespace
}  // namespace dlaunch::internal
