// The collectives that only move data.
#include <algorithm>
#include <cstring>

#include "runtime/shared_collectives/rounds.h"
#include "runtime/shared_collectives/shared_call.h"

namespace dlaunch::internal {

void SharedCall::broadcast(Bytes values, int src) {
  const auto root = static_cast<std::size_t>(src);
  if (values.size() <= shared::eager_size) {
    begin();
    if (self() == root) copy(memory_.compose(values.size()), values);
    memory_.publish();
    if (self() != root) copy(values.data(), {memory_.receive(root, values.size()), values.size()});
    return;
  }
  if (values.size() < direct_size) {
    meet();
  } else if (const ConstBytes lent = self() == root ? ConstBytes(values) : ConstBytes();
             meet_to_lend({&lent, 1})) {
    std::vector<Bytes> targets(size());
    if (self() != root) targets[root] = values;
    return move_directly(targets, self() == root ? every_reader : no_reader);
  }
  const std::uint64_t total = rounds_of(values.size(), round_size);
  Rounds rounds = no_rounds();
  if (self() == root) {
    std::ranges::fill(rounds.to, total);
  } else {
    rounds.from[root] = total;
  }
  relay(
      rounds,
      [&](std::uint64_t round) {
        copy(memory_.own_staging(round, round_size), part(values, round, round_size));
      },
      [&](std::uint64_t round, std::size_t peer) {
        const Bytes target = part(values, round, round_size);
        copy(target.data(), {memory_.staging(peer, round), target.size()});
      });
}

void SharedCall::all_gather(std::span<const Bytes> outputs, ConstBytes input) {
  const auto longest = std::ranges::max_element(outputs, {}, &Bytes::size)->size();
  if (longest <= shared::eager_size) {
    begin();
    copy(memory_.compose(input.size()), input);
    memory_.publish();
    copy(outputs[self()].data(), input);
    for_each_peer([&](std::size_t peer) {
      const Bytes target = outputs[peer];
      copy(target.data(), {memory_.receive(peer, target.size()), target.size()});
    });
    return;
  }
  if (longest < direct_size) {
    meet();
  } else if (meet_to_lend({&input, 1})) {
    copy(outputs[self()].data(), input);
    return move_directly(outputs, every_reader);
  }
  Rounds rounds = no_rounds();
  for (std::size_t peer = 0; peer < size(); ++peer) {
    rounds.to[peer] = rounds_of(input.size(), round_size);
    rounds.from[peer] = rounds_of(outputs[peer].size(), round_size);
  }
  relay(
      rounds,
      [&](std::uint64_t round) {
        const ConstBytes source = part(input, round, round_size);
        copy(memory_.own_staging(round, round_size), source);
        copy(outputs[self()].data() + round * round_size, source);
      },
      [&](std::uint64_t round, std::size_t peer) {
        const Bytes target = part(outputs[peer], round, round_size);
        copy(target.data(), {memory_.staging(peer, round), target.size()});
      });
}

void SharedCall::gather(std::span<const Bytes> outputs, ConstBytes input, int dst) {
  const auto root = static_cast<std::size_t>(dst);
  const bool is_root = self() == root;
  if (is_root) copy(outputs[self()].data(), input);
  if (input.size() <= shared::eager_size) {
    begin();
    if (!is_root) copy(memory_.compose(input.size()), input);
    memory_.publish();
    if (!is_root) return;
    for_each_peer([&](std::size_t peer) {
      copy(outputs[peer].data(), {memory_.receive(peer, input.size()), input.size()});
    });
    return;
  }
  if (input.size() < direct_size) {
    meet();
  } else if (const ConstBytes lent = is_root ? ConstBytes() : input; meet_to_lend({&lent, 1})) {
    return move_directly(outputs, is_root ? no_reader : root);
  }
  Rounds rounds = no_rounds();
  const std::uint64_t total = rounds_of(input.size(), round_size);
  if (is_root) {
    std::ranges::fill(rounds.from, total);
  } else {
    rounds.to[root] = total;
  }
  relay(
      rounds,
      [&](std::uint64_t round) {
        copy(memory_.own_staging(round, round_size), part(input, round, round_size));
      },
      [&](std::uint64_t round, std::size_t peer) {
        const Bytes target = part(outputs[peer], round, round_size);
        copy(target.data(), {memory_.staging(peer, round), target.size()});
      });
}

void SharedCall::scatter(Bytes output, std::span<const ConstBytes> inputs, int src) {
  const auto root = static_cast<std::size_t>(src);
  const bool is_root = self() == root;
  const std::size_t block = output.size();
  const std::size_t stride = shared::round_up(block, 64);
  if (stride * size() <= shared::eager_size) {
    begin();
    if (is_root) {
      std::byte* const place = memory_.compose(stride * size());
      for_each_peer([&](std::size_t peer) { copy(place + peer * stride, inputs[peer]); });
    }
    memory_.publish();
    if (is_root) {
      copy(output.data(), inputs[root]);
    } else {
      copy(output.data(), {memory_.receive(root, stride * size()) + self() * stride, block});
    }
    return;
  }
  if (block < direct_size) {
    meet();
  } else {
    const std::vector<ConstBytes> nothing(size());
    if (meet_to_lend(is_root ? inputs : nothing)) {
      if (is_root) copy(output.data(), inputs[root]);
      std::vector<Bytes> targets(size());
      if (!is_root) targets[root] = output;
      return move_directly(targets, is_root ? every_reader : no_reader);
    }
  }
  const std::size_t in_round = part_size(size());
  const std::uint64_t total = rounds_of(block, in_round);
  Rounds rounds = no_rounds();
  if (is_root) {
    std::ranges::fill(rounds.to, total);
    copy(output.data(), inputs[root]);
  } else {
    rounds.from[root] = total;
  }
  relay(
      rounds,
      [&](std::uint64_t round) {
        std::byte* const place = memory_.own_staging(round, in_round * size());
        for_each_peer(
            [&](std::size_t peer) { copy(place + peer * in_round, part(inputs[peer], round, in_round)); });
      },
      [&](std::uint64_t round, std::size_t peer) {
        const Bytes target = part(output, round, in_round);
        copy(target.data(), {memory_.staging(peer, round) + self() * in_round, target.size()});
      });
}

}  // namespace dlaunch::internal
