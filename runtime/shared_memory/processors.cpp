#include "runtime/shared_memory/processors.h"

#include <sched.h>

#include <bit>
#include <fstream>
#include <string>

namespace dlaunch::internal {

std::size_t usable_processors() {
  cpu_set_t usable;
  return sched_getaffinity(0, sizeof usable, &usable) == 0 ? static_cast<std::size_t>(CPU_COUNT(&usable)) : 1;
}

ProcessorSet usable_processor_set() {
  ProcessorSet set{};
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return set;
  for (std::size_t i = 0; i < CPU_SETSIZE && i / 64 < set.size(); ++i) {
    if (CPU_ISSET(i, &usable)) set[i / 64] |= std::uint64_t{1} << i % 64;
  }
  return set;
}

void add_to(ProcessorSet& set, const ProcessorSet& more) {
  for (std::size_t i = 0; i < set.size(); ++i) set[i] |= more[i];
}

std::size_t size_of(const ProcessorSet& set) {
  std::size_t size = 0;
  for (const std::uint64_t word : set) size += static_cast<std::size_t>(std::popcount(word));
  return size;
}

std::uint32_t scheduling_group() {
  constexpr std::uint32_t only_one = 1;
  int enabled = 0;
  if (!(std::ifstream("/proc/sys/kernel/sched_autogroup_enabled") >> enabled) || enabled == 0)
    return only_one;
  std::ifstream file("/proc/self/autogroup");  // "/autogroup-NUMBER nice VALUE"
  std::uint32_t number = 0;
  std::string name;
  std::getline(file, name, '-');
  return file >> number ? only_one + 1 + number : only_one;
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

void avoid_processor(std::uint32_t processor) {
  cpu_set_t others;
  CPU_ZERO(&others);
  for (std::size_t i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &others);
  if (processor > 0 && processor <= CPU_SETSIZE) CPU_CLR(processor - 1, &others);
  sched_setaffinity(0, sizeof others, &others);  // the kernel leaves out what there is not
}

}  // namespace dlaunch::internal
