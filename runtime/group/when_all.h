// Several operations as one.
#pragma once

#include <span>

#include "dlaunch/work.h"

namespace dlaunch::internal {

// Completes when all of them have completed, with the error of the first one in the list that failed.
Work when_all(std::span<const Work> works);

// Returns when all of them have ended, with any result. For callers that cannot return them, since the next
// operation could not be started. Their memory is free then.
void wait_all_noexcept(std::span<const Work> works) noexcept;

}  // namespace dlaunch::internal
