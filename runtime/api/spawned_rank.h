// The life of one rank that spawn() has started, in its own process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace dlaunch::internal {

struct SpawnOrder {
  int rank = -1;
  int size = 0;
  pid_t parent = -1;  // the process ends with this one
  std::string file;   // of the store in which the ranks meet
};

// A process's report of its failure, in one write; the error's message follows.
struct SpawnReport {
  bool blames_another = false;
  int peer = -1;
  std::int64_t thrown_ns = 0;
};

// Makes this process that rank and calls `body`; writes the error it throws to `report_fd`. Returns the exit
// code. REQUIRES: the process has no other thread, and has made no group.
int run_as_rank(const SpawnOrder& order, int report_fd, const std::function<void(int rank)>& body);

}  // namespace dlaunch::internal
