#include "examples/train_mnist/training.h"

#include <array>
#include <chrono>

#include "examples/train_mnist/sgd.h"
#include "examples/train_mnist/shard.h"

namespace mnist {

EpochReport train_epoch(TrainingState& state, Device& device, const RunSettings& settings, const Team& team,
                        const std::function<void(std::size_t)>& before_step) {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t epoch = state.epochs_done;
  const std::size_t steps = steps_per_epoch(settings.training_images, settings.batch_size);
  const std::vector<std::uint32_t> order = epoch_order(settings.training_images, settings.seed, epoch);
  const float rate = learning_rate(settings.learning_rate, epoch);

  for (std::size_t step = 0; step < steps; ++step) {
    before_step(epoch * steps + step + 1);
    const auto batch = batch_of(order, step, settings.batch_size);
    const Range own = part_of(batch.size(), team.rank(), team.size());

    device.compute_gradients(batch.subspan(own.begin, own.size()));
    team.sum(device.gradients());
    device.step(1.0F / static_cast<float>(batch.size()), rate);
  }

  ++state.epochs_done;
  device.fetch(state.parameters, state.velocity);
  const std::uint64_t fingerprint =
      team.require_same(std::as_bytes(std::span(state.parameters)), "the parameters");
  double loss = device.take_loss();
  team.sum(dlaunch::Tensor::of(std::span(&loss, 1)));
  return {.epoch = state.epochs_done,
          .mean_loss = loss / settings.training_images,
          .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          .fingerprint = fingerprint};
}

double accuracy(Device& device, std::size_t images, const Team& team) {
  const Range own = part_of(images, team.rank(), team.size());
  std::array<double, 1> correct{static_cast<double>(device.count_correct(own.begin, own.end))};
  team.sum(dlaunch::Tensor::of(correct));
  return correct[0] / static_cast<double>(images);
}

}  // namespace mnist
