// Ranks that called different operations of libdlaunch at the same place of their group, by what they wrote
// when they noticed it. Each knows its own call and that of one other rank; together they show which one
// differs. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

struct CallMismatch {
  // "the ranks call different operations at #5 of group default: rank 1 calls broadcast(9 x float32, src 0);
  // ranks 0 and 2 call all_reduce(9 x float32, sum)"
  std::string text;
  int rank = -1;  // the one whose call no other rank makes, if others agree; -1: none
  std::string remedy;
};

// The line of a worker's last output by which find_call_mismatch() knows its call, in at most 400 bytes;
// empty: there is none.
std::string call_mismatch_line(std::string_view output);

// The part of what is known of a worker's end in which it reports such a thing.
const std::string& last_output_of(const Failure& failure);

// The rank whose end should be awaited before the others are stopped, because it may show more; -1: any. Of a
// rank that reports a mismatch: any, since all reports together show which rank differs.
int awaited_after(const Failure& failure);

// From the last output of the workers that failed. None: none of them has noticed such a thing in the default
// group, whose ranks are those of the job.
std::optional<CallMismatch> find_call_mismatch(const std::vector<std::string_view>& outputs);

}  // namespace dlaunch::agent
