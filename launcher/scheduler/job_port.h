// The port of a job that nobody named one for.
#pragma once

#include <cstdint>

namespace dlaunch::launcher {

// Below Linux's ephemeral ports, and different for jobs that share a first host, mostly. `job` is any number
// that all nodes of the job know.
constexpr std::uint16_t port_for(std::uint64_t job) {
  constexpr std::uint64_t first = 20'000;
  constexpr std::uint64_t how_many = 12'000;
  return static_cast<std::uint16_t>(first + job % how_many);
}

}  // namespace dlaunch::launcher
