// The processors on which the ranks of a host run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dlaunch::internal {

// How many this process may use.
std::size_t usable_processors();
// Which: one bit each.
using ProcessorSet = std::array<std::uint64_t, 16>;
ProcessorSet usable_processor_set();
void add_to(ProcessorSet& set, const ProcessorSet& more);
std::size_t size_of(const ProcessorSet& set);

// The one on which the calling thread runs, from 1 on; 0: not known.
std::uint32_t current_processor();

// Moves the calling thread to another one than this, if it may use another. It may be moved back.
//
// The scheduler often wakes a thread on the processor of the one that wakes it. Two ranks that wait for each
// other then take turns on one processor, each as long as it looks before it sleeps, while another one idles.
// The scheduler does not end that, since never two of them want to run for long.
void leave_processor(std::uint32_t processor);

// The calling thread runs on other processors than this one from now on, also on those that its process may
// not use. Nothing happens if the control group allows no other.
void avoid_processor(std::uint32_t processor);

// sched_yield() passes the processor on only to threads of the same scheduling group. Linux makes one of each
// session (autogroups, sched(7)), unless the administrator has turned that off.
//
// The group of the calling thread; two threads of one host and one cgroup with the same number are in one
// group. Not 0.
std::uint32_t scheduling_group();

}  // namespace dlaunch::internal
