// train_mnist: data-parallel training on as many workers as it is started with, surviving restarts.
//
//   dlaunch --nproc-per-node=4 train_mnist --epochs=2
//
// Every worker holds the whole network and the whole data set. Each step, every worker computes the gradient
// on its own part of the batch, one all_reduce adds the parts up, and all take the same step. Read on in
// training.cpp (the loop), team.cpp (all that is distributed about it), network.cpp (the arithmetic; on a GPU
// cuda/cuda_device.cpp), checkpoint.cpp.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "dlaunch/distributed.h"
#include "examples/train_mnist/checkpoint.h"
#include "examples/train_mnist/cpu_device.h"
#include "examples/train_mnist/cuda_module.h"
#include "examples/train_mnist/device.h"
#include "examples/train_mnist/idx.h"
#include "examples/train_mnist/job.h"
#include "examples/train_mnist/network.h"
#include "examples/train_mnist/options.h"
#include "examples/train_mnist/shard.h"
#include "examples/train_mnist/team.h"
#include "examples/train_mnist/training.h"

namespace mnist {
namespace {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

// One line on stdout, at once: stdout is a pipe to the launcher, which the C library would fill up silently.
__attribute__((format(printf, 1, 2))) void say(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::putchar('\n');
  std::fflush(stdout);
}

// --data, TRAIN_MNIST_DATA, or the data that comes with the source: where it was built, or beside a build
// directory that has moved along with it.
std::string data_directory(const Options& options) {
  if (!options.data.empty()) return options.data;
  if (const auto named = environment("TRAIN_MNIST_DATA")) return *named;
  std::string built_with = TRAIN_MNIST_DATA_DIR;
  std::error_code error;
  if (std::filesystem::is_directory(built_with, error)) return built_with;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path moved = program.parent_path() / "../../examples/data/mnist";
  return std::filesystem::is_directory(moved, error) ? moved.string() : built_with;
}

// Where rank 0 keeps the checkpoint; empty: nowhere.
std::string checkpoint_path(const Options& options, const Job& job) {
  if (options.no_checkpoint) return "";
  if (!options.checkpoint.empty()) return options.checkpoint;
  if (!job.launched) return "";
  const std::string directory = environment("TMPDIR").value_or("/tmp");
  return directory + "/train_mnist-" + std::to_string(geteuid()) + "-" + job.id + ".checkpoint";
}

// Which worker is to die at which step of this round; nothing if none.
struct Accident {
  std::size_t rank;
  std::size_t step;
};

std::optional<Accident> accident_of(const Options& options, const Job& job) {
  if (!options.fail_at_step) return std::nullopt;
  const Accident accident{.rank = options.fail_rank.value_or(job.world_size - 1),
                          .step = *options.fail_at_step};
  if (accident.rank >= job.world_size)
    throw UsageError("--fail-rank=" + std::to_string(accident.rank) + " does not exist: " +
                     (job.world_size == 1 ? "the only worker is rank 0"
                                          : "the last rank is " + std::to_string(job.world_size - 1)));
  // Once in the life of the job: the restart is what the accident is for.
  if (job.restarts > 0) return std::nullopt;
  return accident;
}

std::unique_ptr<Device> open_device(const Options& options, const Dataset& train, const Dataset& test,
                                    const Job& job) {
  if (options.device == DeviceKind::cuda) return open_cuda_device(train, test, job.local_rank);
  return std::make_unique<CpuDevice>(train, test);
}

// Rank 0 alone looks at the file; the others hear from it in share().
TrainingState first_state(const std::string& path, bool belongs_to_job, const Job& job,
                          const RunSettings& settings) {
  TrainingState state;
  if (!path.empty()) {
    // Left behind by another job that happened to have this one's name.
    if (belongs_to_job && job.first_round) remove_checkpoint(path, dlaunch::fencing_token());
    require_writable(path);
    if (const auto saved = read_checkpoint(path)) {
      require_fits(*saved, path, settings, state.parameters.size());
      state.parameters = saved->parameters;
      state.velocity = saved->velocity;
      state.epochs_done = saved->epochs_done;
      return state;
    }
  }
  Network network(network_widths);
  network.initialise(settings.seed);
  state.parameters.assign(network.parameters().begin(), network.parameters().end());
  return state;
}

// Everybody takes over rank 0's state. Throws on all if somebody's command line or data are others: such a
// worker would take other steps than the rest.
void share(TrainingState& state, const RunSettings& settings, const Options& options, const Team& team) {
  const std::array<std::uint64_t, 6> plan{
      options.epochs,           settings.seed,
      settings.batch_size,      std::bit_cast<std::uint32_t>(settings.learning_rate),
      settings.training_images, static_cast<std::uint64_t>(options.device)};
  team.require_same(std::as_bytes(std::span(plan)), "the command line or the data set");

  std::array<std::int64_t, 1> epochs_done{static_cast<std::int64_t>(state.epochs_done)};
  team.copy_from_first(epochs_done);
  state.epochs_done = static_cast<std::size_t>(epochs_done[0]);
  team.copy_from_first(state.parameters);
  team.copy_from_first(state.velocity);
}

void save(const std::string& path, const TrainingState& state, const RunSettings& settings) {
  write_checkpoint(path, {.settings = settings,
                          .epochs_done = static_cast<std::uint32_t>(state.epochs_done),
                          .parameters = state.parameters,
                          .velocity = state.velocity,
                          .fencing_token = dlaunch::fencing_token()});
}

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

// What is about to happen, for whoever watches.
void announce(const Options& options, const Job& job, const Team& team, const TrainingState& state,
              const Device& device, std::size_t images, const std::string& path) {
  const std::size_t steps = steps_per_epoch(images, options.batch_size);
  if (!job.launched) say("RANK is not set: training alone, as one worker");
  say("%zu worker%s, %zu training images, %zu parameters, %zu steps an epoch", team.size(),
      plural(team.size()), images, state.parameters.size(), steps);
  if (options.device != DeviceKind::cpu) say("rank 0 trains on %s", device.name().c_str());
  if (state.epochs_done >= options.epochs)
    say("nothing to train: %zu epoch%s done already (checkpoint %s)", state.epochs_done,
        plural(state.epochs_done), path.c_str());
  else if (state.epochs_done > 0)
    say("resuming from epoch %zu (checkpoint %s)", state.epochs_done, path.c_str());
  if (options.fail_at_step && *options.fail_at_step > options.epochs * steps)
    say("--fail-at-step=%zu never comes: this run ends after %zu steps", *options.fail_at_step,
        options.epochs * steps);
}

void run(const Options& options, const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  const std::optional<Accident> accident = accident_of(options, job);
  const std::string directory = data_directory(options);
  const std::string path = checkpoint_path(options, job);
  const bool belongs_to_job = options.checkpoint.empty();

  // What can be wrong with files and GPUs is found before joining, by the first worker of each host alone:
  // then the reason is said once, and the launcher stops the others, who wait in Team's constructor.
  Dataset train;
  Dataset test;
  std::unique_ptr<Device>
      device;  // made before the team, so there until the last collective on its memory is over
  const auto prepare = [&] {
    train = read_training_set(directory);
    test = read_test_set(directory);
    device = open_device(options, train, test, job);
  };
  const bool prepares_first = job.local_rank == 0 || job.rank == 0;
  if (prepares_first) prepare();

  RunSettings settings{
      .seed = options.seed, .batch_size = options.batch_size, .learning_rate = options.learning_rate};
  TrainingState state;
  if (job.rank == 0) {
    settings.training_images = static_cast<std::uint32_t>(train.count());
    state = first_state(path, belongs_to_job, job, settings);
  }

  const Team team(job.launched, group_backend(options));
  // From here on everybody is there, and whatever ends one worker ends all.
  if (!prepares_first) prepare();
  settings.training_images = static_cast<std::uint32_t>(train.count());
  share(state, settings, options, team);
  device->load(state.parameters, state.velocity);
  // From here on all workers hold the same bits.

  const bool speaks = team.rank() == 0;
  if (speaks) announce(options, job, team, state, *device, train.count(), path);

  const auto before_step = [&](std::size_t step) {
    if (!accident || accident->step != step || accident->rank != team.rank()) return;
    std::fprintf(stderr, "train_mnist: rank %zu dies at step %zu, as --fail-at-step asks\n", team.rank(),
                 step);
    _exit(3);  // as a crash would: nothing is cleaned up, nobody is told
  };
  while (state.epochs_done < options.epochs) {
    const EpochReport report = train_epoch(state, *device, settings, team, before_step);
    const double right = accuracy(*device, test.count(), team);
    if (!speaks) continue;
    if (!path.empty()) save(path, state, settings);
    say("epoch %zu/%zu: loss %.4f, test accuracy %.2f %%, %.1f s, %.0f images/s", report.epoch,
        options.epochs, report.mean_loss, 100 * right, report.seconds,
        static_cast<double>(train.count()) / report.seconds);
  }

  const std::uint64_t fingerprint =
      team.require_same(std::as_bytes(std::span(state.parameters)), "the parameters");
  const double right = accuracy(*device, test.count(), team);
  team.wait_for_all();
  if (!speaks) return;
  // From here on no worker needs the checkpoint any more.
  if (belongs_to_job && !path.empty()) remove_checkpoint(path, dlaunch::fencing_token());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say("parameters %016llx, the same on every worker", static_cast<unsigned long long>(fingerprint));
  say("test accuracy: %.2f %% after %zu epoch%s (%zu worker%s, %.1f s)", 100 * right, state.epochs_done,
      plural(state.epochs_done), team.size(), plural(team.size()), seconds);
}

int guarded_main(std::span<const char* const> arguments) {
  try {
    const Options options = parse_options(arguments);
    if (options.help) {
      std::fwrite(help_text().data(), 1, help_text().size(), stdout);
      return 0;
    }
    run(options, job_from(environment));
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "train_mnist: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_mnist: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace mnist

int main(int argc, char** argv) {
  const std::span all(argv, static_cast<std::size_t>(argc));
  return mnist::guarded_main(all.subspan(all.empty() ? 0 : 1));
}
