// all_to_all. Two ranks know only the sizes of what they exchange.
//
// Each rank publishes a table with a row for each receiver, and behind it the blocks that fit: in its cell if
// all of it fits there, else in its eager area. Longer blocks are read from the sender's memory, or go
// through the staging areas: sender and receiver decide the same.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "dlaunch/error.h"
#include "runtime/shared_collectives/rounds.h"
#include "runtime/shared_collectives/shared_call.h"

namespace dlaunch::internal {

namespace {

// At the beginning of the cell.
enum class TablePlace : std::uint64_t { cell, eager_area, eager_area_with_long_blocks };
// A row in the cell: the length, and the offset in the upper half.
using CellRow = std::uint64_t;
constexpr unsigned offset_shift = 32;
constexpr std::size_t cell_rows_at = sizeof(TablePlace);

}  // namespace

// What this rank publishes.
struct SharedCall::Table {
  struct Layout {
    std::size_t rows_at;
    std::size_t row_size;
    std::size_t alignment;  // of blocks
    std::size_t room;
  };
  static constexpr Layout in_cell{cell_rows_at, sizeof(CellRow), sizeof(std::uint64_t), shared::inline_size};
  // Blocks begin behind the rows, so that an offset is never 0.
  static constexpr Layout in_eager_area{0, sizeof(Row), 64, shared::eager_size};

  Table(std::span<const ConstBytes> blocks, std::size_t self, const Layout& layout)
      : size(shared::round_up(layout.rows_at + blocks.size() * layout.row_size, layout.alignment)),
        rows(blocks.size(), [&](std::size_t rank) {
          Row row;
          if (rank == self) return row;
          row.length = blocks[rank].size();
          if (row.length > 0 && size <= layout.room && row.length <= layout.room - size) {
            row.offset = size;
            size = shared::round_up(size + row.length, layout.alignment);
          }
          has_long = has_long || row.is_long();
          return row;
        }) {
    fits = !has_long && size <= layout.room;
    size = std::min(size, layout.room);
  }

  std::size_t size;  // with the blocks behind it
  bool has_long = false;
  bool fits = false;
  ShortArray<Row> rows;  // by receiver
};

// Writes table and blocks. Returns what the cell begins with.
SharedCall::Sent SharedCall::send_blocks(std::span<const ConstBytes> inputs) {
  std::byte* const cell = memory_.compose(0);
  const auto write_place = [&](TablePlace place) { std::memcpy(cell, &place, sizeof place); };
  if (const Table table(inputs, self(), Table::in_cell); table.fits) {
    write_place(TablePlace::cell);
    for (std::size_t rank = 0; rank < size(); ++rank) {
      const Row& row = table.rows[rank];
      const CellRow short_row = row.length | row.offset << offset_shift;
      std::memcpy(cell + cell_rows_at + rank * sizeof short_row, &short_row, sizeof short_row);
      if (row.offset > 0) copy(cell + row.offset, inputs[rank]);
    }
    return {table.rows, false};
  }
  Table table(inputs, self(), Table::in_eager_area);
  constexpr std::size_t always_eager = shared::short_size + 1;
  std::byte* const area = memory_.compose(std::max(table.size, always_eager));
  write_place(table.has_long ? TablePlace::eager_area_with_long_blocks : TablePlace::eager_area);
  for_each_peer([&](std::size_t peer) {
    Row& row = table.rows[peer];
    if (row.is_long()) {
      row.address = lend(inputs[peer]);
    } else {
      copy(area + row.offset, inputs[peer]);
    }
  });
  std::memcpy(area, table.rows.data(), size() * sizeof(Row));
  return {table.rows, table.has_long};
}

// Takes the block of that rank if it is in its table. Returns its row for this rank.
SharedCall::Row SharedCall::receive_block(std::size_t peer, Bytes target, bool& has_long) {
  const std::byte* blocks = memory_.receive(peer, 0);
  TablePlace place{};
  std::memcpy(&place, blocks, sizeof place);
  Row row;
  std::size_t room = shared::inline_size;
  if (place > TablePlace::eager_area_with_long_blocks) memory_.throw_damaged(peer);
  if (place == TablePlace::cell) {
    if (cell_rows_at + size() * sizeof(CellRow) > shared::inline_size) memory_.throw_damaged(peer);
    CellRow short_row = 0;
    std::memcpy(&short_row, blocks + cell_rows_at + self() * sizeof short_row, sizeof short_row);
    row = {.length = short_row & 0xffffffffU, .offset = short_row >> offset_shift};
  } else {
    blocks = memory_.eager_area(peer);
    room = shared::eager_size;
    std::memcpy(&row, blocks + self() * sizeof row, sizeof row);
    has_long = has_long || place != TablePlace::eager_area;
  }
  check_length(peer, row.length, target.size());
  if (row.is_long() && place != TablePlace::eager_area_with_long_blocks) memory_.throw_damaged(peer);
  if (row.is_long() || target.empty()) return row;
  // No other offset is read from shared memory.
  if (row.offset > room || target.size() > room - row.offset) memory_.throw_damaged(peer);
  copy(target.data(), {blocks + row.offset, target.size()});
  return row;
}

void SharedCall::all_to_all(std::span<const Bytes> outputs, std::span<const ConstBytes> inputs) {
  begin();
  const Sent sent = send_blocks(inputs);
  memory_.publish();
  copy(outputs[self()].data(), inputs[self()]);
  bool has_long = sent.has_long;
  ShortArray<Row> received(size(), [](std::size_t) { return Row(); });  // by sender
  for_each_peer([&](std::size_t peer) { received[peer] = receive_block(peer, outputs[peer], has_long); });
  if (has_long) move_long(outputs, inputs, sent.rows, received);
}

void SharedCall::move_long(std::span<const Bytes> outputs, std::span<const ConstBytes> inputs,
                           std::span<const Row> sent, std::span<const Row> received) {
  const bool reads_directly = memory_.reads_directly();
  const auto is_staged = [&](const Row& row) {
    return row.is_long() && !(reads_directly && row.address != 0);
  };
  const std::size_t in_round = part_size(size());
  Rounds rounds = no_rounds();
  for_each_peer([&](std::size_t peer) {
    if (is_staged(sent[peer])) rounds.to[peer] = rounds_of(sent[peer].length, in_round);
    const Row& row = received[peer];
    if (is_staged(row)) {
      rounds.from[peer] = rounds_of(row.length, in_round);
    } else if (row.is_long()) {
      memory_.read_directly(peer, row.address, outputs[peer].data(), outputs[peer].size());
    }
  });
  relay(
      rounds,
      [&](std::uint64_t round) {
        std::byte* const half = memory_.own_staging(round, in_round * size());
        for_each_peer([&](std::size_t peer) {
          if (round < rounds.to[peer]) copy(half + peer * in_round, part(inputs[peer], round, in_round));
        });
      },
      [&](std::uint64_t round, std::size_t peer) {
        const Bytes target = part(outputs[peer], round, in_round);
        copy(target.data(), {memory_.staging(peer, round) + self() * in_round, target.size()});
      });
  for_each_peer([&](std::size_t peer) {
    if (sent[peer].is_long() && !is_staged(sent[peer])) memory_.await_drained(peer, 0);
  });
  lends_ = false;
}

void SharedCall::check_length(std::size_t peer, std::uint64_t sent, std::size_t expected) const {
  if (sent == expected) return;
  const std::size_t element = size_of(fingerprint_.dtype);
  throw DistNetworkError("in " + to_string(fingerprint_) + " rank " + std::to_string(memory_.member(peer)) +
                             " sends " + std::to_string(sent / element) +
                             " elements to this rank, which expects " + std::to_string(expected / element),
                         {.peer = memory_.member(peer)});
}

}  // namespace dlaunch::internal
