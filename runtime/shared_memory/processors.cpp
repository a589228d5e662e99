#include "runtime/shared_memory/processors.h"

#include <sched.h>

namespace dlaunch::internal {

std::size_t usable_processors() {
  cpu_set_t usable;
  return sched_getaffinity(0, sizeof usable, &usable) == 0 ? static_cast<std::size_t>(CPU_COUNT(&usable)) : 1;
}

std::uint32_t current_processor() { return static_cast<std::uint32_t>(sched_getcpu() + 1); }

void leave_processor(std::uint32_t processor) {
  cpu_set_t usable;
  if (processor == 0 || processor > CPU_SETSIZE || sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  cpu_set_t others = usable;
  CPU_CLR(processor - 1, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof usable, &usable);
}

}  // namespace dlaunch::internal
