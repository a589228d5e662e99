// The progress of ranks as nodes would have reported it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "agent/model/collective_progress.h"

namespace dlaunch::agent {

inline RankProgress done(int rank, std::uint64_t number) {
  RankProgress progress;
  progress.rank = rank;
  progress.entered = progress.done = number;
  return progress;
}

inline RankProgress in(int rank, std::uint64_t number, Duration waited,
                       page::Operation operation = page::Operation::all_reduce) {
  RankProgress progress = done(rank, number - 1);
  progress.entered = number;
  progress.inside = true;
  progress.operation = operation;
  progress.waited = waited;
  return progress;
}

inline GroupProgress group(std::uint32_t size, std::vector<RankProgress> here, std::string name = "default",
                           int first = 0) {
  const std::uint64_t identity = std::hash<std::string>()(name);
  return {identity, std::move(name), size, {{first, 1, size}}, std::move(here)};
}

inline RankProgress otherwise(int rank, page::Operation operation, Duration waited, int peer = -1) {
  RankProgress progress = done(rank, 3);
  progress.operation = operation;
  progress.peer = peer;
  progress.waited = waited;
  return progress;
}

}  // namespace dlaunch::agent
