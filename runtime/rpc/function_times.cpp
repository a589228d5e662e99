#include "runtime/rpc/function_times.h"

#include <sys/resource.h>

#include <ctime>

#include "runtime/base/quick_clock.h"

namespace dlaunch::internal {

namespace {

// The times of getrusage() are only brought up to date when the thread loses its processor.
FunctionTimes::Use use_so_far() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  rusage use{};
  getrusage(RUSAGE_THREAD, &use);
  return {std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec), use.ru_nvcsw};
}

}  // namespace

FunctionTimes::Begin FunctionTimes::begin() const {
  const bool are_suspected = score_.load(std::memory_order_relaxed) > 0;
  return {QuickClock::now(), are_suspected ? std::optional(use_so_far()) : std::nullopt};
}

bool FunctionTimes::end(const Begin& begin, Deadline::duration sending) {
  bool is_long = QuickClock::now() - begin.now - sending > short_time;
  if (is_long && begin.use) {
    const Use use = use_so_far();
    is_long = use.sleeps != begin.use->sleeps || use.processor - begin.use->processor > short_time;
  }
  return add(is_long);
}

}  // namespace dlaunch::internal
