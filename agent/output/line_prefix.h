// The prefix of each line that a worker writes to the console. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch::agent {

struct PrefixFacts {
  std::string role;
  int rank = 0;
  int local_rank = 0;
  std::string host;
};

// Replaced for each line, by with_time().
inline constexpr std::string_view time_placeholder = "${time}";

// Replaces torchrun's placeholders ${role_name}, ${rank}, ${local_rank} and ${hostname}, and ${host}, which
// equals ${hostname}; keeps all others.
std::string expand_prefix(std::string_view text, const PrefixFacts& facts);

// Replaces each ${time} by `time`.
std::string with_time(std::string prefix, std::string_view time);

// Adds the colour of this rank, for a terminal.
std::string coloured(const std::string& prefix, int rank);

// Appends `lines` to `out` with `prefix` before each line. A carriage return ends a line, too, because
// progress bars use it.
void add_prefixed(std::string_view lines, std::string_view prefix, std::string& out);

}  // namespace dlaunch::agent
