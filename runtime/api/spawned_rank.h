// The life of one rank that spawn() has started, in its own process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace dlaunch {

struct SpawnOrder {
  int rank = -1;
  int size = 0;
  pid_t parent = -1;  // the process ends with this one
  std::string file;   // of the store in which the ranks meet
};

// What a process reports of its end, in one write; the words of the error follow.
struct SpawnReport {
  bool blames_another = false;
  int peer = -1;
  std::int64_t thrown_ns = 0;
};

// Makes this process that rank and calls `body`; reports to `report_fd` what it throws. Returns the exit
// code. REQUIRES: no other thread is here, and the process has made no group.
int run_as_rank(const SpawnOrder& order, int report_fd, const std::function<void(int rank)>& body);

}  // namespace dlaunch
