// Times as records have them.
#pragma once

#include <cstdint>

namespace dlaunch::agent {

constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t second = 1000 * ms;

}  // namespace dlaunch::agent
