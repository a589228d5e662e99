#include "store/base/cgroup.h"

#include <algorithm>

namespace dlaunch::store {
namespace {

bool lists(std::string_view controllers, std::string_view wanted) {
  while (true) {
    const std::size_t end = controllers.find(',');
    if (controllers.substr(0, end) == wanted) return true;
    if (end == std::string_view::npos) return false;
    controllers.remove_prefix(end + 1);
  }
}

}  // namespace

std::optional<Cgroup> find_cgroup(std::string_view text, std::string_view controller) {
  std::optional<Cgroup> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (lists(controllers, controller)) return Cgroup{1, path};
    if (controllers.empty() && line.substr(0, first) == "0") found = {2, path};
  }
  return found;
}

std::string parent_cgroup(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace dlaunch::store
