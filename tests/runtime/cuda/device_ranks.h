// What the tests of CUDA tensors have in common: ranks with a device each. The libraries are those that
// LD_LIBRARY_PATH names: the doubles (tests/doubles), or the real ones.
#pragma once

#include <cuda_runtime_api.h>
#include <dlaunch/distributed.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/runtime/cuda/device_values.h"
#include "tests/runtime/cuda/test_devices.h"
#include "tests/runtime/rank_processes.h"

namespace dlaunch::test {

using Floats = DeviceValues<float>;

// Each rank has a device of its own, if there are enough.
inline void init(int rank, std::chrono::milliseconds timeout = std::chrono::seconds(30),
                 const std::string& backend = "nccl") {
  require(cudaSetDevice(device_of(rank)), "cudaSetDevice");
  init_process_group({.backend = backend, .timeout = timeout});
}

// Of a test for several backends, without the characters that GoogleTest rejects.
inline std::string name_of_backend(const testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  std::erase_if(name, [](char letter) { return letter == ':' || letter == ','; });
  return name;
}

// As run_processes(), and each rank leaves its group in order.
inline std::vector<RankResult> run_ranks(int size, const std::function<std::string(int)>& body) {
  return run_processes(size, [&](int rank) {
    std::string said = body(rank);
    if (is_initialized()) destroy_process_group();
    return said;
  });
}

// What `call` throws, without the place; empty: nothing.
template <class Call>
std::string thrown_by(const Call& call) {
  try {
    call();
    return "";
  } catch (const DistError& e) {
    return e.reason();
  }
}

}  // namespace dlaunch::test
