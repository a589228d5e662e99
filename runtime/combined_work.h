// Several operations as one.
#pragma once

#include <span>

#include "dlaunch/work.h"

namespace dlaunch {

// Completes when all of them have, with the error of the first in their order that has failed.
Work all_of(std::span<const Work> works);

}  // namespace dlaunch
