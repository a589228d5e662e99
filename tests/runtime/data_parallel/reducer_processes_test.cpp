// The reducer with ranks that are processes: the same bits over shared memory and TCP, and a rank that dies.

#include <dlaunch/data_parallel.h>
#include <dlaunch/debug.h>
#include <dlaunch/distributed.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/runtime/data_parallel/reduced_model.h"
#include "tests/runtime/group_file.h"
#include "tests/runtime/rank_processes.h"
#include "tests/runtime/shared_memory.h"

namespace {

using dlaunch::GradientReducer;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::expect_all_say;
using dlaunch::test::floats;
using dlaunch::test::GroupFile;
using dlaunch::test::ProcessBarrier;
using dlaunch::test::ReducedModel;
using dlaunch::test::run_processes;
using dlaunch::test::shuffled;

// Sizes of a small network, with buckets from a few bytes to more than 1 MiB.
const std::vector<std::size_t> sizes = {784 * 100, 100, 300'000, 10, 1000, 10};

// Values that are not exact in float, so that the order of additions shows.
float value_of(int rank, std::size_t parameter, std::size_t element, int step) {
  const auto mixed = static_cast<unsigned>(rank * 7919 + static_cast<int>(parameter) * 104'729 + step) +
                     static_cast<unsigned>(element) * 2'654'435'761U;
  return static_cast<float>(mixed % 100'003U) / 3.0F;
}

// The gradients of the last step as bytes, in hexadecimal after hashing: short enough to compare.
std::string train(int rank, std::size_t cap) {
  ReducedModel model(sizes);
  GradientReducer reducer(model.parameters(), {.first_bucket_bytes = cap / 4, .bucket_cap_bytes = cap});
  for (int step = 0; step < 4; ++step) {
    reducer.begin_step();
    for (const std::size_t i : shuffled(sizes.size(), static_cast<unsigned>(step * 10 + rank))) {
      const auto gradient = floats(reducer.gradient(i));
      for (std::size_t j = 0; j < gradient.size(); ++j) gradient[j] = value_of(rank, i, j, step);
      reducer.mark_ready(i);
    }
    reducer.finish_step();
  }
  std::uint64_t hash = 0;
  double worst = 0;
  const int ranks = dlaunch::get_world_size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto gradient = floats(reducer.gradient(i));
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &gradient[j], sizeof bits);
      hash = (hash ^ bits) * 0x100000001b3U;
      double mean = 0;
      for (int other = 0; other < ranks; ++other)
        mean += static_cast<double>(value_of(other, i, j, 3)) / ranks;
      worst = std::max(worst, std::abs(mean - static_cast<double>(gradient[j])) / std::max(1.0, mean));
    }
  }
  return worst < 1e-6 ? "hash " + std::to_string(hash) : "wrong by " + std::to_string(worst);
}

TEST(ReducerProcesses, HaveTheSameBitsOverSharedMemoryAndTcp) {
  for (const int ranks : {2, 4}) {
    std::vector<std::string> hashes;
    for (const char* shared : {"1", "0"}) {
      const auto results = run_processes(ranks, [&](int rank) -> std::string {
        setenv("DLAUNCH_SHM", shared, 1);
        dlaunch::init_process_group();
        std::string said = train(rank, 400'000);
        dlaunch::destroy_process_group();
        return said;
      });
      ASSERT_TRUE(results[0].said.starts_with("hash ")) << results[0].said;
      expect_all_say(results, results[0].said);
      hashes.push_back(results[0].said);
    }
    EXPECT_EQ(hashes[0], hashes[1]);
  }
}

// A step of buckets of 1.2 MB touches nothing of what the ranks copy through; an all_reduce of other memory
// does.
TEST(ReducerProcesses, ReduceBucketsInPlace) {
  const auto results = run_processes(2, [](int) -> std::string {
    dlaunch::init_process_group();
    ReducedModel model({300'000, 300'000});
    GradientReducer reducer(model.parameters(), {.bucket_cap_bytes = 1'200'000});
    const auto step = [&] {
      reducer.begin_step();
      for (const std::size_t i : {0U, 1U}) {
        std::ranges::fill(floats(reducer.gradient(i)), 1.0F);
        reducer.mark_ready(i);
      }
      reducer.finish_step();
      return GroupFile(reducer.gradient(0).data());
    };
    const GroupFile first = step();  // the next one lays out other buckets
    if (!first.has() || reducer.statistics().shared_bytes != 2'400'000) return "the buckets are not shared";
    const GroupFile third = (step(), step());
    if (!third.has()) return "the second buckets are not shared";
    constexpr std::size_t little = 64 << 10;  // what the calls themselves take
    if (third.beside() > first.beside() + little)
      return "two steps touched " + std::to_string(third.beside() - first.beside()) + " bytes more";
    std::vector<float> elsewhere(300'000);
    dlaunch::all_reduce(dlaunch::Tensor::of(elsewhere));
    const GroupFile last(reducer.gradient(0).data());
    if (last.beside() < third.beside() + 3 * little) return "copies are not seen";
    dlaunch::destroy_process_group();
    return "ok";
  });
  expect_all_say(results, "ok");
}

// In the middle of a step: its peers learn at once which one, and in which gradients.
TEST(ReducerProcesses, ARankThatDiesIsNamed) {
  for (const char* shared : {"1", "0"}) {
    const ProcessBarrier ready(3);
    const ProcessBarrier survivors(2);
    const auto results = run_processes(3, [&](int rank) -> std::string {
      setenv("DLAUNCH_SHM", shared, 1);
      dlaunch::init_process_group();
      ReducedModel model({100'000, 10});
      GradientReducer reducer(model.parameters());
      reducer.begin_step();
      reducer.mark_ready(1);
      ready.meet();
      if (rank == 2) raise(SIGKILL);
      const std::string error = error_of([&] {
        reducer.mark_ready(0);
        reducer.finish_step();
      });
      survivors.meet();  // else the one that ends first is the lost peer of the other
      const bool is_named =
          contains(error, "gradients of parameters 1 (layer1), 0 (layer0) (bucket 0 of 1): ") &&
          contains(error, "peer 2") && contains(error, "died");
      return is_named ? "ok" : error;
    });
    for (const int rank : {0, 1}) EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, "ok");
  }
}

TEST(ReducerProcesses, LogWhatTheReducerWasMadeWith) {
  const auto results = run_processes(2, [&](int rank) -> std::string {
    setenv("DLAUNCH_CPP_LOG_LEVEL", "INFO", 1);
    dlaunch::set_debug_level(dlaunch::DebugLevel::detail);
    dlaunch::init_process_group();
    std::string logged;
    dlaunch::set_log_handler([&](dlaunch::LogLevel, const std::string& message) {
      if (contains(message, "GradientReducer: ")) logged += message + "\n";
    });
    {
      ReducedModel model({100, 10});
      GradientReducer reducer(model.parameters());
      for (int step = 0; step < 2; ++step) {
        reducer.begin_step();
        for (std::size_t i = 0; i < 2; ++i) reducer.mark_ready(i);
        reducer.finish_step();
      }
    }
    dlaunch::set_log_handler(nullptr);
    dlaunch::destroy_process_group();
    const std::string self = "[rank " + std::to_string(rank);
    for (const std::string& line :
         {self + "]: GradientReducer: bucket_cap_bytes: 26214400\n",
          std::string("num_parameter_tensors: 2\n"), std::string("total_parameter_size_bytes: 440\n"),
          std::string("bucket_sizes: 440\n"), std::string("world_size: 2\n"),
          std::string("backend_name: gloo\n"), std::string("dtypes: float32\n"),
          std::string("buckets rebuilt in the order of arrival: 1\n"),
          self + " / 2]: GradientReducer: step 1, unused parameters 0, average forward "}) {
      if (!contains(logged, line)) return line + " is not in " + logged;
    }
    return "ok";
  });
  expect_all_say(results, "ok");
}

}  // namespace
