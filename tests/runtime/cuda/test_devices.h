// The devices of tests: eight of the double's, or the machine's own when DLAUNCH_TEST_GPUS has their number
// (then LD_LIBRARY_PATH names the real libraries). No call of CUDA: a test asks before it forks its ranks.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace dlaunch::test {

inline bool is_on_gpus() { return std::getenv("DLAUNCH_TEST_GPUS") != nullptr; }

inline int device_count() {
  const char* const text = std::getenv("DLAUNCH_TEST_GPUS");
  return text == nullptr ? 8 : std::atoi(text);
}

// The device of a rank: its own as long as there are enough, else a shared one.
inline int device_of(int rank) { return rank % device_count(); }

}  // namespace dlaunch::test

// What only the doubles do: they fail when a test wants it.
#define SKIP_ON_GPUS(reason) \
  if (dlaunch::test::is_on_gpus()) GTEST_SKIP() << reason

// A test that needs a device for each rank, or devices of its own.
#define NEEDS_DEVICES(count) \
  if (dlaunch::test::device_count() < (count)) GTEST_SKIP() << "there are fewer than " << (count) << " GPUs"
