// Ranks and what is known of them in words, for the sentences of a diagnosis (agent/model/diagnosis.h). Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/model/collective_progress.h"

namespace dlaunch::agent {

using Ranks = std::vector<const RankProgress*>;

// So many are named at most.
inline constexpr std::size_t shown_ranks = 8;

// "rank 3", "ranks 3, 5 and 6", "ranks 0, 1, ... 7 and 12 more". `count`: of all, of which `ranks` may be a
// part.
std::string describe(const std::vector<int>& ranks, std::size_t count);

std::vector<int> numbers(const Ranks& ranks);
std::vector<int> in_condition(const Ranks& ranks, Condition condition);

// "; ranks 0 and 2 call it at train.py:7 in step; the last call of rank 1 was at train.py:9 in step". Empty:
// it is not known.
std::string who_calls_where(const Ranks& waiting, const Ranks& absent);

// "; rank 2 is stopped". Empty: none is.
std::string and_stopped(const std::vector<int>& stopped);

// "; the GPUs of ranks 0 and 1 have not come to it". Empty: there are none.
std::string and_late_on_device(const Ranks& late);

// "; rank 1 returned 0; ranks 2 and 3 were killed by SIGSEGV": those of these ranks that have ended.
std::string who_has_ended(const Ranks& absent);

}  // namespace dlaunch::agent
