// all_to_all. Two ranks know only the sizes of what they exchange.
//
// Each rank publishes a table with a row for each receiver, and behind it the blocks that fit. Longer blocks
// are read from the sender's memory, or go through the staging areas: sender and receiver decide the same.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/shared_collectives/rounds.h"
#include "runtime/shared_collectives/shared_call.h"

namespace dlaunch::internal {

struct SharedCall::Table {
  std::vector<Row> rows;  // by receiver
  std::size_t size = 0;   // with the blocks behind it
  std::uint64_t has_long = 0;

  // In the eager area: has_long, the rows, the blocks.
  static constexpr std::size_t rows_at = sizeof(std::uint64_t);

  Table(std::span<const ConstBytes> blocks, std::size_t self) : rows(blocks.size()) {
    std::size_t end = shared::round_up(rows_at + blocks.size() * sizeof(Row), 64);
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
      Row& row = rows[rank];
      if (rank == self) continue;
      row.length = blocks[rank].size();
      if (row.length > 0 && end <= shared::eager_size && row.length <= shared::eager_size - end) {
        row.offset = end;
        end = shared::round_up(end + row.length, 64);
      }
      if (row.is_long()) has_long = 1;
    }
    size = std::min(end, shared::eager_size);
  }
};

void SharedCall::all_to_all(std::span<const Bytes> outputs, std::span<const ConstBytes> inputs) {
  Table table(inputs, self());
  begin();
  constexpr std::size_t always_eager = shared::short_size + 1;  // where receivers look, whose size it is not
  std::byte* const place = memory_.compose(std::max(table.size, always_eager));
  for_each_peer([&](std::size_t peer) {
    Row& row = table.rows[peer];
    if (row.is_long()) {
      row.address = lend(inputs[peer]);
    } else {
      copy(place + row.offset, inputs[peer]);
    }
  });
  std::memcpy(place, &table.has_long, sizeof table.has_long);
  std::memcpy(place + Table::rows_at, table.rows.data(), size() * sizeof(Row));
  memory_.publish();
  copy(outputs[self()].data(), inputs[self()]);

  std::vector<Row> rows(size());  // by sender
  bool has_long = table.has_long != 0;
  for_each_peer([&](std::size_t peer) {
    const std::byte* const theirs = memory_.receive(peer, always_eager);
    std::uint64_t word = 0;
    std::memcpy(&word, theirs, sizeof word);
    has_long = has_long || word != 0;
    Row& row = rows[peer];
    std::memcpy(&row, theirs + Table::rows_at + self() * sizeof(Row), sizeof row);
    const Bytes target = outputs[peer];
    check_length(peer, row.length, target.size());
    if (row.is_long() || target.empty()) return;
    // The only offset that is read from shared memory.
    if (row.offset > shared::eager_size || target.size() > shared::eager_size - row.offset) {
      memory_.throw_damaged(peer);
    }
    copy(target.data(), {theirs + row.offset, target.size()});
  });
  if (has_long) move_long(outputs, inputs, table.rows, rows);
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
