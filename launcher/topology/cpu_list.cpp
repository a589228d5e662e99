#include "launcher/topology/cpu_list.h"

#include <algorithm>
#include <charconv>

namespace dlaunch::launcher {
namespace {

constexpr int most_cpus = 65'536;

bool read_number(std::string_view& text, int& into) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), into);
  if (failure != std::errc{} || into < 0 || into >= most_cpus) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string to_list(const Cpus& cpus) {
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!out.empty()) out += ",";
    out += std::to_string(cpus[i]);
    if (last > i) out += (last == i + 1 ? "," : "-") + std::to_string(cpus[last]);
    i = last + 1;
  }
  return out;
}

Result<Cpus> parse_cpu_list(std::string_view text) {
  const std::string whole(text);
  const auto wrong = [&] {
    return Error{ErrorKind::invalid, "not a list of CPUs:", "'" + whole + "'", "", ""};
  };
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  Cpus out;
  while (!text.empty()) {
    int first = 0;
    if (!read_number(text, first)) return wrong();
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!read_number(text, last) || last < first) return wrong();
    }
    for (int cpu = first; cpu <= last; ++cpu) out.push_back(cpu);
    if (text.empty()) break;
    if (!text.starts_with(',') || text.size() == 1) return wrong();
    text.remove_prefix(1);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace dlaunch::launcher
