// For tests with a LibTorch that computes on GPUs: loads that part, which the program is not linked with,
// and skips the tests if they have no GPU.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/runtime/cuda/test_devices.h"

namespace dlaunch::test {
namespace {

class TorchOnGpus : public testing::Environment {
 public:
  void SetUp() override {
    if (!is_on_gpus())
      GTEST_SKIP() << "this LibTorch computes on GPUs, and DLAUNCH_TEST_GPUS has not their number";
    ASSERT_NE(dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  }
};

const testing::Environment* const torch_on_gpus = testing::AddGlobalTestEnvironment(new TorchOnGpus);

}  // namespace
}  // namespace dlaunch::test
