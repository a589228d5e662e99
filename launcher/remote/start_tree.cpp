#include "launcher/remote/start_tree.h"

#include <cstddef>
#include <span>

namespace dlaunch::launcher {
namespace {

void share(std::span<const int> hosts, int starter, std::size_t width, std::vector<int>& starters) {
  if (hosts.size() <= width) {
    for (const int host : hosts) starters[static_cast<std::size_t>(host)] = starter;
    return;
  }
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t begin = hosts.size() * i / width;
    const std::size_t end = hosts.size() * (i + 1) / width;
    const int head = hosts[begin];
    starters[static_cast<std::size_t>(head)] = starter;
    share(hosts.subspan(begin + 1, end - begin - 1), head, width, starters);
  }
}

}  // namespace

std::vector<int> start_tree(const std::vector<bool>& from_here, int width) {
  std::vector<int> starters(from_here.size(), started_from_here);
  std::vector<int> others;
  for (std::size_t i = 0; i < from_here.size(); ++i) {
    if (!from_here[i]) others.push_back(static_cast<int>(i));
  }
  if (width > 0) share(others, started_from_here, static_cast<std::size_t>(width), starters);
  return starters;
}

}  // namespace dlaunch::launcher
