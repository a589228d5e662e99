// What the ranks of an MPI program publish for each other while they start (PMI-1: a key-value space).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dlaunch::agent {

struct PmiEntry {
  std::string key;
  std::string value;
  bool operator==(const PmiEntry&) const = default;
};

// PMI-1's limits as MPICH's own launcher has them: clients are built for these.
inline constexpr std::size_t longest_pmi_name = 256;
inline constexpr std::size_t longest_pmi_key = 64;
inline constexpr std::size_t longest_pmi_value = 1024;
// All entries of one round, by size_of(). MPICH publishes about 1 KiB a rank.
inline constexpr std::size_t most_pmi_bytes = std::size_t{64} << 20;
// The entries of one message between agents.
inline constexpr std::size_t most_pmi_bytes_of_message = std::size_t{256} << 10;
inline constexpr std::uint32_t most_pmi_entries_of_message = 4096;

// Its memory, about.
inline std::size_t size_of(const PmiEntry& entry) {
  constexpr std::size_t node = 128;
  return entry.key.size() + entry.value.size() + node;
}

// The entries in pieces that each fit a message between agents; at least one piece.
inline std::vector<std::vector<PmiEntry>> in_messages(std::vector<PmiEntry> entries) {
  std::vector<std::vector<PmiEntry>> pieces(1);
  std::size_t bytes = 0;
  for (PmiEntry& entry : entries) {
    const std::size_t size = size_of(entry);
    const bool is_full =
        bytes + size > most_pmi_bytes_of_message || pieces.back().size() >= most_pmi_entries_of_message;
    if (is_full && !pieces.back().empty()) {
      pieces.emplace_back();
      bytes = 0;
    }
    bytes += size;
    pieces.back().push_back(std::move(entry));
  }
  return pieces;
}

}  // namespace dlaunch::agent
