#include "agent/output/dropped.h"

#include <algorithm>
#include <utility>

#include "store/base/text.h"

namespace dlaunch::agent {

void Dropped::add(std::string_view text) {
  if (text.empty()) return;
  bytes += text.size();
  const bool was_within = std::exchange(within_line, text.back() != '\n');
  lines += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  if (within_line) ++lines;
  if (was_within) --lines;  // the line continued by `text` has been counted
}

void Dropped::add(const Dropped& other) {
  bytes += other.bytes;
  lines += other.lines;
  within_line = other.within_line;
}

std::string describe(const Dropped& dropped) {
  return pluralize(dropped.lines, "line") + " (" + pluralize(dropped.bytes, "byte") + ")";
}

}  // namespace dlaunch::agent
