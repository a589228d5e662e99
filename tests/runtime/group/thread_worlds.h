// Worlds whose ranks are threads of the test.
#pragma once

#include <functional>
#include <vector>

#include "dlaunch/distributed.h"
#include "dlaunch/threads.h"

namespace dlaunch::test {

// A world of threads whose default group exists.
inline void in_world(int size, const std::function<void(int)>& body) {
  run_ranks_as_threads(size, [&](int rank) {
    init_process_group();
    body(rank);
    destroy_process_group();
  });
}

inline int sum_over(const ProcessGroup& group, int value) {
  std::vector<int> values = {value};
  group.all_reduce(Tensor::of(values));
  return values[0];
}

}  // namespace dlaunch::test
