#include "runtime/group/splits.h"

#include <sstream>

namespace dlaunch::internal {

namespace {

// Elements, by rank.
struct Splits {
  std::vector<std::uint64_t> expected;
  std::vector<std::uint64_t> sent;
};

// A missing number counts as 0.
Splits parse(const std::string& text, std::size_t ranks) {
  Splits splits{std::vector<std::uint64_t>(ranks), std::vector<std::uint64_t>(ranks)};
  std::istringstream in(text);
  for (std::size_t rank = 0; rank < ranks; ++rank) in >> splits.expected[rank] >> splits.sent[rank];
  return splits;
}

}  // namespace

std::string splits_text(std::span<const Tensor> outputs, std::span<const Tensor> inputs) {
  std::string text;
  for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
    text += std::to_string(outputs[rank].numel()) + " " + std::to_string(inputs[rank].numel()) + " ";
  }
  return text;
}

std::string split_mismatch(std::span<const std::string> all) {
  constexpr int told_at_most = 4;
  std::vector<Splits> splits;
  for (const std::string& text : all) splits.push_back(parse(text, all.size()));
  std::string text;
  int found = 0;
  for (std::size_t to = 0; to < all.size(); ++to) {
    for (std::size_t from = 0; from < all.size(); ++from) {
      const std::uint64_t sent = splits[from].sent[to];
      const std::uint64_t expected = splits[to].expected[from];
      if (sent == expected || ++found > told_at_most) continue;
      text += (text.empty() ? "the sizes do not match: rank " : "; rank ") + std::to_string(from) +
              " sends " + std::to_string(sent) + " elements to rank " + std::to_string(to) +
              ", which expects " + std::to_string(expected);
    }
  }
  if (found > told_at_most) text += "; and " + std::to_string(found - told_at_most) + " more";
  return text;
}

}  // namespace dlaunch::internal
