// Stochastic gradient descent with momentum, and how its step shrinks from epoch to epoch.
#pragma once

#include <cstddef>
#include <span>

namespace mnist {

// The learning rate of epoch `epoch` (0 is the first) of a run that began with `initial`: a fifth of the
// epoch's before. It does not depend on how many epochs there will be, so a run that is stopped, resumed or
// made longer takes the very same steps.
float learning_rate(float initial, std::size_t epoch);

inline constexpr float momentum = 0.9F;

// velocity = momentum * velocity + gradients * scale;  parameters -= rate * velocity.
// The three are of one length; `scale` turns a sum over images into a mean.
void sgd_step(std::span<float> parameters, std::span<float> velocity, std::span<const float> gradients,
              float scale, float rate);

}  // namespace mnist
