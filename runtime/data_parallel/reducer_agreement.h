// The first calls of a reducer: the ranks compare what they have, and take the parameters of rank 0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dlaunch/data_parallel.h"
#include "runtime/gradients/agreement.h"

namespace dlaunch::internal {

// Of the first parameter: a reducer's parameters are on one device.
Device device_of(std::span<const Parameter> parameters);

// Throws DistError, on all ranks of the group alike, if a rank's parameters or options are not those of rank
// 0. `problem`: what is wrong with this rank's own arguments; then it throws that, and the others name this
// rank. All ranks of the group call it together.
void require_agreement(const ProcessGroup& group, std::span<const Parameter> parameters,
                       std::span<const std::string> names, const ReducerOptions& options,
                       const std::optional<std::string>& problem);

// Every rank gets the values of rank 0.
void broadcast_parameters(const ProcessGroup& group, std::span<const Parameter> parameters);

// Throws DistError, on all ranks alike, if they do not begin the same step. `device`: of the gradients.
void require_same_step(const ProcessGroup& group, StepRow own, Device device);

}  // namespace dlaunch::internal
