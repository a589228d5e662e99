// Copies to and from memory that another rank reads or writes.
#pragma once

#include <cstddef>
#include <span>

namespace dlaunch::internal {

// As memmove, but with the processor's ordinary loads and stores at every size. From some KiB on, memmove
// takes "rep movsb" on a processor that reports it to be fast. On AMD's it is not if the lines are in another
// core's cache: an all_reduce of 4 MiB took 2,820 us with memmove and 480 us with this (2 ranks, Zen 4).
void copy(std::byte* to, std::span<const std::byte> from);

}  // namespace dlaunch::internal
