// The training loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "examples/train_mnist/checkpoint.h"
#include "examples/train_mnist/device.h"
#include "examples/train_mnist/layers.h"
#include "examples/train_mnist/team.h"

namespace mnist {

// What a worker carries from epoch to epoch. All workers hold the same bits in it.
struct TrainingState {
  std::vector<float> parameters = std::vector<float>(parameter_count(network_widths));
  std::vector<float> velocity = std::vector<float>(parameter_count(network_widths));
  std::size_t epochs_done = 0;
};

struct EpochReport {
  std::size_t epoch = 0;          // 1 is the first
  double mean_loss = 0;           // over the epoch's training images, each at the time it was used
  double seconds = 0;             // of training, without the test
  std::uint64_t fingerprint = 0;  // of the parameters, which all workers hold alike
};

// Trains the next epoch of the state, which the device has loaded, and fetches it from there: the team takes
// the same steps together, each worker on its part of every batch. `before_step` is called with the number of
// each step of the whole run (1 is the first) before it is taken. On return the workers have compared their
// parameters. Throws dlaunch::DistError if a worker is lost, std::runtime_error if the workers have come to
// differ; the state is then of no use.
EpochReport train_epoch(TrainingState& state, Device& device, const RunSettings& settings, const Team& team,
                        const std::function<void(std::size_t)>& before_step);

// The share of the `images` test images that the network names rightly, 0 to 1; each worker looks at its
// part.
double accuracy(Device& device, std::size_t images, const Team& team);

}  // namespace mnist
