// Threads of the runtime, and the error when there is none.

#include "runtime/base/start_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <memory>

#include "tests/runtime/api/error_strings.h"

namespace dlaunch::internal {
namespace {

// The default size of a thread's stack while the object lives.
class StackSize {
 public:
  explicit StackSize(std::size_t size) {
    pthread_getattr_default_np(&before_);
    pthread_attr_t wanted;
    pthread_attr_init(&wanted);
    is_set_ = pthread_attr_setstacksize(&wanted, size) == 0 && pthread_setattr_default_np(&wanted) == 0;
    pthread_attr_destroy(&wanted);
  }
  ~StackSize() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  StackSize(const StackSize&) = delete;
  StackSize& operator=(const StackSize&) = delete;

  [[nodiscard]] bool is_set() const { return is_set_; }

 private:
  pthread_attr_t before_{};
  bool is_set_ = false;
};

TEST(StartThread, RunsAFunctionThatCanOnlyBeMoved) {
  std::atomic<int> result = 0;
  start_thread([&result, value = std::make_unique<int>(7)] { result = *value; }).join();
  EXPECT_EQ(result, 7);
}

// The system's answer is the same if a limit on threads is reached.
TEST(StartThread, IsAnErrorOfTheBackendIfTheSystemRefuses) {
  std::string error;
  {
    const StackSize larger_than_any_memory(std::size_t{1} << 60U);
    ASSERT_TRUE(larger_than_any_memory.is_set());
    try {
      start_thread([] {}).join();
      error = "no error";
    } catch (const DistBackendError& e) {
      error = e.what();
    }
  }
  EXPECT_TRUE(error.starts_with("cannot start a thread: Resource temporarily unavailable")) << error;
  start_thread([] {}).join();
}

}  // namespace
}  // namespace dlaunch::internal
