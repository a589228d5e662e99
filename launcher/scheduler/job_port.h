// The default port of a job.
#pragma once

#include <cstdint>

namespace dlaunch::launcher {

// Below Linux's ephemeral ports, and usually different for jobs with the same first host. `job`: any number
// that all nodes of the job know.
constexpr std::uint16_t port_for(std::uint64_t job) {
  constexpr std::uint64_t first = 20'000;
  constexpr std::uint64_t how_many = 12'000;
  return static_cast<std::uint16_t>(first + job % how_many);
}

}  // namespace dlaunch::launcher
