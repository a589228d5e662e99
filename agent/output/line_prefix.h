// What stands before each line that a worker writes to the console. Pure.
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

// What is replaced for each line anew.
inline constexpr std::string_view time_placeholder = "${time}";

// torchrun's placeholders ${role_name}, ${rank}, ${local_rank} and ${hostname}, and ${host}, which is the
// same; others stay as they are.
std::string expand_prefix(std::string_view text, const PrefixFacts& facts);

// With the time in place of each ${time}.
std::string with_time(std::string prefix, std::string_view time);

// In a colour of the rank's own, for a terminal.
std::string coloured(const std::string& prefix, int rank);

// Puts `prefix` before each line of `lines` and appends them to `out`. A carriage return begins a line anew,
// as progress bars do.
void add_prefixed(std::string_view lines, std::string_view prefix, std::string& out);

}  // namespace dlaunch::agent
