// Several operations as one.
#pragma once

#include <span>

#include "dlaunch/work.h"

namespace dlaunch {

// Completes when all of them have, with the error of the first in their order that has failed.
Work when_all(std::span<const Work> works);

// Returns when all of them have ended, with whatever result: for who cannot hand them to anybody because the
// next one could not be started. Their memory is free then.
void wait_all_noexcept(std::span<const Work> works) noexcept;

}  // namespace dlaunch
