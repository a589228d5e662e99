#include "examples/train_mnist/sgd.h"

namespace mnist {

float learning_rate(float initial, std::size_t epoch) {
  float rate = initial;
  for (std::size_t i = 0; i < epoch; ++i) rate *= 0.2F;
  return rate;
}

void sgd_step(std::span<float> parameters, std::span<float> velocity, std::span<const float> gradients,
              float scale, float rate) {
  float* __restrict p = parameters.data();
  float* __restrict v = velocity.data();
  const float* __restrict g = gradients.data();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    v[i] = momentum * v[i] + scale * g[i];
    p[i] -= rate * v[i];
  }
}

}  // namespace mnist
