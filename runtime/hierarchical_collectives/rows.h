// Rows: the blocks of one host's ranks, one behind the other. Between hosts whole rows are exchanged. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "runtime/shared_collectives/rounds.h"

namespace dlaunch::internal {

template <class Byte>
std::size_t size_of_all(std::span<const std::span<Byte>> blocks) {
  std::size_t size = 0;
  for (const std::span<Byte> block : blocks) size += block.size();
  return size;
}

// Whether each block begins where the one before ends.
template <class Byte>
bool is_one_piece(std::span<const std::span<Byte>> blocks) {
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i].data() != blocks[i - 1].data() + blocks[i - 1].size()) return false;
  }
  return true;
}

// The first `size` bytes of `memory`, which then begins behind them.
inline std::span<std::byte> take(std::span<std::byte>& memory, std::size_t size) {
  return std::exchange(memory, memory.subspan(size)).first(size);
}

inline void pack(std::span<std::byte> row, std::span<const std::span<const std::byte>> blocks) {
  for (const std::span<const std::byte> block : blocks) copy(take(row, block.size()).data(), block);
}

inline void unpack(std::span<const std::span<std::byte>> blocks, std::span<const std::byte> row) {
  for (const std::span<std::byte> block : blocks) {
    copy(block.data(), row.first(block.size()));
    row = row.subspan(block.size());
  }
}

// Where the row of these blocks is received: in the blocks themselves if they are in one piece, otherwise in
// memory that is taken from `scratch`.
inline std::span<std::byte> row_for(std::span<const std::span<std::byte>> blocks,
                                    std::span<std::byte>& scratch) {
  const std::size_t size = size_of_all(blocks);
  return is_one_piece(blocks) ? std::span(blocks.front().data(), size) : take(scratch, size);
}

// The row of these blocks, for sending: they themselves, or copied into memory that is taken from `scratch`.
inline std::span<const std::byte> row_of(std::span<const std::span<const std::byte>> blocks,
                                         std::span<std::byte>& scratch) {
  const std::size_t size = size_of_all(blocks);
  if (is_one_piece(blocks)) return {blocks.front().data(), size};
  const std::span<std::byte> row = take(scratch, size);
  pack(row, blocks);
  return row;
}

}  // namespace dlaunch::internal
