// Ranks as threads of one process: for tests of programs, and for experiments without a launcher.
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

// Runs `body` on `size` new threads. Each thread is a rank with its own state of the library (default group,
// groups, store); init_process_group() without options makes them one world with the backend "threads".
// (Threads that a body starts itself belong to the process, not to the rank.) Returns when all have returned,
// then rethrows the first exception, if there was one. If a body throws, its rank's groups are aborted, so
// that the others do not wait for it. Groups that a body has not destroyed are destroyed.
DLAUNCH_EXPORT void run_ranks_as_threads(int size, const std::function<void(int rank)>& body);

}  // namespace v1
}  // namespace dlaunch
