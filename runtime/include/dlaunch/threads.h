// Ranks as threads of one process: for tests of programs, and for trying things out without a launcher.
//
//   dlaunch::run_ranks_as_threads(4, [](int rank) {
//     dlaunch::init_process_group();
//     std::vector<int> one = {1};
//     dlaunch::all_reduce(dlaunch::Tensor::of(one));  // 4
//     dlaunch::destroy_process_group();
//   });
#pragma once

#include <functional>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

// Runs `body` on `size` threads of its own. For each of them the library's state (default group, groups,
// store) is that of a rank of its own; init_process_group() without options makes them one world with the
// backend "threads". (Threads that a body starts itself belong to the process, not to the rank.) Returns when
// all have returned, then rethrows the first exception, if there was one. A rank whose body throws breaks its
// groups, so that the others do not wait for it; what a body left undestroyed is destroyed.
DLAUNCH_EXPORT void run_ranks_as_threads(int size, const std::function<void(int rank)>& body);

}  // namespace v1
}  // namespace dlaunch
