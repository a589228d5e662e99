#include "examples/train_mnist/options.h"

#include <charconv>
#include <cmath>

namespace mnist {
namespace {

DeviceKind device(const std::string& text) {
  if (text == "cpu") return DeviceKind::cpu;
  if (text == "cuda") return DeviceKind::cuda;
  throw UsageError("--device=" + text + " is neither cpu nor cuda; see --help");
}

template <class T>
T number(const std::string& name, const std::string& text, T least, T most) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  // The comparison is false for NaN.
  const bool good = error == std::errc() && stop == end && value >= least && value <= most;
  if (!good) throw UsageError("--" + name + "=" + text + " is not a number in its range; see --help");
  return value;
}

void apply(Options& options, const std::string& name, const std::string& value) {
  constexpr std::size_t many = 1'000'000;
  constexpr auto any_seed = static_cast<std::uint64_t>(-1);
  if (value.empty()) throw UsageError("--" + name + " needs a value; see --help");
  if (name == "epochs") options.epochs = number<std::size_t>(name, value, 1, 1000);
  if (name == "batch-size") options.batch_size = number<std::size_t>(name, value, 1, many);
  if (name == "lr") options.learning_rate = number<float>(name, value, 1e-6F, 10.0F);
  if (name == "seed") options.seed = number<std::uint64_t>(name, value, 0, any_seed);
  if (name == "device") options.device = device(value);
  if (name == "backend") options.backend = value;
  if (name == "data") options.data = value;
  if (name == "checkpoint") options.checkpoint = value;
  if (name == "fail-at-step") options.fail_at_step = number<std::size_t>(name, value, 1, many * many);
  if (name == "fail-rank") options.fail_rank = number<std::size_t>(name, value, 0, many);
}

bool takes_value(std::string_view name) {
  for (const std::string_view known : {"epochs", "batch-size", "lr", "seed", "device", "backend", "data",
                                       "checkpoint", "fail-at-step", "fail-rank"})
    if (name == known) return true;
  return false;
}

}  // namespace

Options parse_options(std::span<const char* const> arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
      continue;
    }
    if (argument == "--no-checkpoint") {
      options.no_checkpoint = true;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.starts_with("--") ? argument.substr(2, equals - 2) : "";
    if (!takes_value(name)) throw UsageError("unknown argument '" + argument + "'; see --help");
    if (equals != std::string::npos) {
      apply(options, name, argument.substr(equals + 1));
    } else {
      ++i;
      apply(options, name, i < arguments.size() ? arguments[i] : "");
    }
  }
  if (options.no_checkpoint && !options.checkpoint.empty())
    throw UsageError("--checkpoint and --no-checkpoint exclude each other");
  if (options.fail_rank && !options.fail_at_step) throw UsageError("--fail-rank needs --fail-at-step");
  if (options.backend == "nccl" && options.device == DeviceKind::cpu)
    throw UsageError("--backend=nccl needs --device=cuda: NCCL only takes what is on a GPU");
  return options;
}

std::string group_backend(const Options& options) {
  return options.backend == "nccl" ? "cpu:gloo,cuda:nccl" : options.backend;
}

std::string_view help_text() {
  return R"(Trains a small network on MNIST's handwritten digits, on as many workers as it is started with.

    dlaunch --nproc-per-node=4 train_mnist [options]
    train_mnist [options]                        alone, without a launcher

  --epochs=N          passes over the training images, 1 to 1000 (2)
  --batch-size=N      images per step, of all workers together (100)
  --lr=X              learning rate of the first epoch; each further one takes a fifth (0.1)
  --seed=N            of the first weights and of the images' order (1)
  --device=cpu|cuda   where each worker computes: on a processor, or on the GPU of its number on the host (cpu)
  --backend=NAME      of libdlaunch, for the gradients: gloo, shm, mpi; with --device=cuda also nccl
                      (with a GPU in the host nccl, else gloo)
  --data=DIR          directory with MNIST's four .gz files
                      (TRAIN_MNIST_DATA, or the part of MNIST that comes with this program)
  --checkpoint=FILE   written after every epoch and kept; if it is there at the start, the run goes on from it
  --no-checkpoint     write none: a restarted job begins again
  --fail-at-step=K    to see a job heal: one worker dies at step K (1 is the first), once: not in a job that
                      --max-restarts has restarted
  --fail-rank=R       which one (the last)
  --help              this text

Rank 0 writes the checkpoint, to a temporary file that then takes its name: it is whole or not there. Without
--checkpoint it belongs to the job: a file in the temporary directory (TMPDIR, or /tmp), named by user, job id and
port. A restarted job finds it there, the first workers of a new job remove it, and it is gone once the job has
succeeded; a job that fails for good leaves it behind. Started without a launcher, nobody restarts the program, so it
keeps no file that was not asked for.

Exit code: 0, 1 if something failed (one line on stderr says what), 2 if the command line is wrong.
)";
}

}  // namespace mnist
