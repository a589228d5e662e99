// Ranks for tests with LibTorch: threads of this process, which form a world.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "dlaunch/threads.h"

namespace dlaunch::test {

// `body` runs on each rank of a world; the test fails if it throws. (A BLAS that several threads cannot use
// at once, such as Debian's libopenblas0-serial, gives wrong products here.)
inline void on_ranks(int size, const std::function<void(int rank)>& body) {
  try {
    run_ranks_as_threads(size, [&](int rank) {
      init_process_group();
      body(rank);
      destroy_process_group();
    });
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
}

// The text of the DistError that `call` throws; empty: it throws none.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DistError& e) {
    return e.what();
  }
  return "";
}

}  // namespace dlaunch::test
