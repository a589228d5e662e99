// Actions at the end of the process.

#include "runtime/base/process_end.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace dlaunch::internal {
namespace {

void print(const char* text) { (void)!write(STDERR_FILENO, text, std::strlen(text)); }
void action() { print("action;"); }
struct Static {
  ~Static() { print("destroyed;"); }
};

// In a new process: what is registered stays registered.
class ProcessEnd : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ProcessEnd, CallsTheActionOnceBeforeEarlierObjectsAreDestroyed) {
  EXPECT_EXIT(
      {
        static const Static object;
        at_process_end<action>();
        at_process_end<action>();
        std::exit(3);
      },
      testing::ExitedWithCode(3), "^action;destroyed;");
}

TEST_F(ProcessEnd, IsNotReachedByAnImmediateExit) {
  EXPECT_EXIT(
      {
        at_process_end<action>();
        _exit(0);
      },
      testing::ExitedWithCode(0), "^$");
}

// The original's end is still to come.
TEST_F(ProcessEnd, OfACopyIsNoEndOfTheOriginal) {
  EXPECT_EXIT(
      {
        at_process_end<action>();
        const pid_t copy = fork();
        if (copy == 0) std::exit(0);
        int status = -1;
        waitpid(copy, &status, 0);
        print("copy;");
        std::exit(status);
      },
      testing::ExitedWithCode(0), "^copy;action;");
}

TEST_F(ProcessEnd, ACopyThatAsksHasAnActionOfItsOwn) {
  EXPECT_EXIT(
      {
        at_process_end<action>();
        const pid_t copy = fork();
        if (copy == 0) {
          at_process_end<action>();
          std::exit(0);
        }
        int status = -1;
        waitpid(copy, &status, 0);
        _exit(status);
      },
      testing::ExitedWithCode(0), "^action;$");
}

}  // namespace
}  // namespace dlaunch::internal
