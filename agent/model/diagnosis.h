// From where all ranks stand to the sentences that a person needs: who has not come to which collective, who
// waits for whom. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/model/collective_progress.h"

namespace dlaunch::agent {

struct Diagnosis {
  static constexpr std::size_t max_sentences = 8;

  // "rank 3 never entered all_reduce #4182 of group default; the other 7 have waited 31 s": one a group that
  // somebody waits in, the likely cause first. While nobody has waited for a tenth of a second and who is
  // missing runs: "rank 3 has not entered ... yet". Where nobody waits in a
  // collective, who is in what else: "ranks 0 and 1 have been in monitored_barrier of group default for 5 s;
  // rank 2 has not come", "rank 1 has been in recv from rank 0 of group default for 5 s". Empty: nobody
  // waits.
  std::vector<std::string> sentences;
  // The ranks that others wait for and that wait for nobody themselves; empty: there is none, or it is not
  // known.
  std::vector<int> missing;
};

// `group_progress`: of all nodes that told theirs; groups of one identity are put together. Groups that all
// of their members have left count only where nobody waits in another.
Diagnosis diagnose(std::vector<GroupProgress> group_progress);

}  // namespace dlaunch::agent
