#include "agent/pmi/process_mapping.h"

#include <cstddef>

namespace dlaunch::agent {

std::string process_mapping(const std::vector<NodeBlock>& blocks) {
  // MPICH's clients read lines of 1,024 bytes at most, with the answer's other words.
  constexpr std::size_t longest = 900;
  if (blocks.empty()) return "";
  std::string text = "(vector";
  int first = 0;
  for (const NodeBlock& block : blocks) {
    text += ",(" + std::to_string(first) + "," + std::to_string(block.nodes) + "," +
            std::to_string(block.slots) + ")";
    first += block.nodes;
  }
  text += ")";
  return text.size() <= longest ? text : "";
}

}  // namespace dlaunch::agent
