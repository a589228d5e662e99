// The command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mnist {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Options {
  std::size_t epochs = 2;
  std::size_t batch_size = 100;  // of all workers together
  float learning_rate = 0.1F;    // of the first epoch
  std::uint64_t seed = 1;
  DeviceKind device = DeviceKind::cpu;
  std::string backend;     // of libdlaunch; empty: its own choice
  std::string data;        // directory; empty: look in the usual places
  std::string checkpoint;  // file; empty: one of the job's own
  bool no_checkpoint = false;
  std::optional<std::size_t> fail_at_step;  // 1 is the first
  std::optional<std::size_t> fail_rank;     // absent: the last rank
  bool help = false;
};

// One line about what the caller wrote: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// From the arguments after the program's name. Each value may be given as --name=value or as --name value.
// Throws UsageError.
Options parse_options(std::span<const char* const> arguments);

// What init_process_group takes as the backend: that of --backend. NCCL's collectives need GPUs, and the
// workers exchange more than gradients: with --backend=nccl gloo carries what is on the CPU.
std::string group_backend(const Options& options);

std::string_view help_text();

}  // namespace mnist
