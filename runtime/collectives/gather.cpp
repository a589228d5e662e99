#include "runtime/collectives/gather.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "runtime/collectives/copy_block.h"

namespace dlaunch::internal {

namespace {

// A binomial tree over the ranks, counted from the root: the places of a subtree have no gaps.
struct Tree {
  Tree(const Exchange& exchange, int its_root)
      : size(static_cast<unsigned>(exchange.size())),
        root(static_cast<unsigned>(its_root)),
        place((static_cast<unsigned>(exchange.rank()) + size - root) % size),
        below(place == 0 ? std::bit_ceil(size) : place & (0U - place)) {}

  [[nodiscard]] int rank_at(unsigned p) const { return static_cast<int>((p + root) % size); }
  [[nodiscard]] int parent() const { return rank_at(place - below); }
  [[nodiscard]] unsigned subtree() const { return std::min(below, size - place); }
  // The end of child place + bit's subtree. REQUIRES: place + bit < size.
  [[nodiscard]] unsigned child_subtree(unsigned bit) const { return std::min(bit, size - place - bit); }

  const unsigned size;
  const unsigned root;
  const unsigned place;
  const unsigned below;  // children are place + bit for the powers of two below this
};

// The tree passes a block on up to log2(size) times, but the root has only log2(size) messages: for short
// blocks.
bool by_tree(const Exchange& exchange, std::size_t block) {
  const std::size_t size = static_cast<std::size_t>(exchange.size());
  return size > 2 && block * size <= Exchange::fragment_limit;
}

// (R. Thakur et al., 2005, section 4; MPICH's short gather.)
void gather_by_tree(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                    std::span<const std::byte> input, int root) {
  const Tree tree(exchange, root);
  const std::size_t block = input.size();
  const std::span<std::byte> row = exchange.workspace().scratch(tree.subtree() * block);
  copy_block(row.data(), input);
  std::vector<Exchange::Receive> expected;
  for (unsigned bit = 1; bit < tree.below && tree.place + bit < tree.size; bit *= 2) {
    expected.push_back(exchange.receive(tree.rank_at(tree.place + bit),
                                        row.subspan(bit * block, tree.child_subtree(bit) * block)));
  }
  wait_for_all(expected);
  if (tree.place != 0) return exchange.send(tree.parent(), row).wait();
  for (unsigned p = 0; p < tree.size; ++p) {
    copy_block(outputs[static_cast<std::size_t>(tree.rank_at(p))].data(), row.subspan(p * block, block));
  }
}

void scatter_by_tree(Exchange& exchange, std::span<std::byte> output,
                     std::span<const std::span<const std::byte>> inputs, int root) {
  const Tree tree(exchange, root);
  const std::size_t block = output.size();
  const std::span<std::byte> row = exchange.workspace().scratch(tree.subtree() * block);
  if (tree.place != 0) {
    exchange.receive(tree.parent(), row).wait_in_place();
  } else {
    for (unsigned p = 0; p < tree.size; ++p) {
      copy_block(row.data() + p * block, inputs[static_cast<std::size_t>(tree.rank_at(p))]);
    }
  }
  std::vector<Exchange::Send> sent;
  for (unsigned bit = tree.below / 2; bit > 0; bit /= 2) {
    if (tree.place + bit >= tree.size) continue;
    sent.push_back(exchange.send(tree.rank_at(tree.place + bit),
                                 row.subspan(bit * block, tree.child_subtree(bit) * block)));
  }
  copy_block(output.data(), row.first(block));
  wait_for_all(sent);
}

}  // namespace

void gather(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
            std::span<const std::byte> input, int root) {
  if (by_tree(exchange, input.size())) return gather_by_tree(exchange, outputs, input, root);
  if (exchange.rank() != root) return exchange.send(root, input).wait();
  std::vector<Exchange::Receive> expected;
  expected.reserve(outputs.size());
  for (int rank = 0; rank < exchange.size(); ++rank) {
    if (rank != root) expected.push_back(exchange.receive(rank, outputs[static_cast<std::size_t>(rank)]));
  }
  copy_block(outputs[static_cast<std::size_t>(root)].data(), input);
  wait_for_all(expected);
}

void scatter(Exchange& exchange, std::span<std::byte> output,
             std::span<const std::span<const std::byte>> inputs, int root) {
  if (by_tree(exchange, output.size())) return scatter_by_tree(exchange, output, inputs, root);
  if (exchange.rank() != root) return exchange.receive(root, output).wait_in_place();
  std::vector<Exchange::Send> sent;
  sent.reserve(inputs.size());
  for (int rank = 0; rank < exchange.size(); ++rank) {
    if (rank != root) sent.push_back(exchange.send(rank, inputs[static_cast<std::size_t>(rank)]));
  }
  copy_block(output.data(), inputs[static_cast<std::size_t>(root)]);
  wait_for_all(sent);
}

}  // namespace dlaunch::internal
