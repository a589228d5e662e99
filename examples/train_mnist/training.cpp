#include "examples/train_mnist/training.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "examples/train_mnist/sgd.h"
#include "examples/train_mnist/shard.h"

namespace mnist {

EpochReport train_epoch(TrainingState& state, const Dataset& data, const RunSettings& settings,
                        const Team& team, const std::function<void(std::size_t)>& before_step) {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t epoch = state.epochs_done;
  const std::size_t steps = steps_per_epoch(data.count(), settings.batch_size);
  const std::vector<std::uint32_t> order = epoch_order(data.count(), settings.seed, epoch);
  const float rate = learning_rate(settings.learning_rate, epoch);
  std::vector<float> gradients(state.network.parameters().size());
  double loss = 0;

  for (std::size_t step = 0; step < steps; ++step) {
    before_step(epoch * steps + step + 1);
    const auto batch = batch_of(order, step, settings.batch_size);
    const Range own = part_of(batch.size(), team.rank(), team.size());

    std::fill(gradients.begin(), gradients.end(), 0.0F);
    loss += state.network.add_gradients(data, batch.subspan(own.begin, own.size()), gradients);
    team.sum(gradients);

    const float mean = 1.0F / static_cast<float>(batch.size());
    sgd_step(state.network.parameters(), state.velocity, gradients, mean, rate);
  }

  ++state.epochs_done;
  const std::uint64_t fingerprint =
      team.require_same(std::as_bytes(state.network.parameters()), "the parameters");
  team.sum(std::span(&loss, 1));
  return {.epoch = state.epochs_done,
          .mean_loss = loss / static_cast<double>(data.count()),
          .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          .fingerprint = fingerprint};
}

double accuracy(TrainingState& state, const Dataset& data, const Team& team) {
  const Range own = part_of(data.count(), team.rank(), team.size());
  std::array<double, 1> correct{static_cast<double>(state.network.count_correct(data, own.begin, own.end))};
  team.sum(correct);
  return correct[0] / static_cast<double>(data.count());
}

}  // namespace mnist
