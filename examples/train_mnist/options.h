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

struct Options {
  std::size_t epochs = 2;
  std::size_t batch_size = 100;  // of all workers together
  float learning_rate = 0.1F;    // of the first epoch
  std::uint64_t seed = 1;
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

std::string_view help_text();

}  // namespace mnist
