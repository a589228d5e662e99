#include "launcher/commands/process_table.h"

#include <dirent.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace dlaunch::launcher {

ProcessTable ProcessTable::read() {
  ProcessTable table;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  if (proc == nullptr) return table;
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  while (const dirent* entry = readdir(proc.get())) {  // NOLINT(concurrency-mt-unsafe): our own directory
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    std::ifstream file(std::string("/proc/") + entry->d_name + "/stat");
    std::string line;
    if (!std::getline(file, line)) continue;  // it has ended meanwhile
    // The name, in parentheses, may contain any characters.
    std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::string skip;
    pid_t parent = 0;
    double user = 0;
    double system = 0;
    std::uint64_t pages = 0;
    ProcessUse use;
    use.processes = 1;
    fields >> skip >> parent;                                  // state, parent
    for (int i = 0; i < 9; ++i) fields >> skip;                // to cmajflt
    fields >> user >> system >> skip >> skip >> skip >> skip;  // to nice
    fields >> use.threads >> skip >> skip >> skip >> pages;    // threads, itrealvalue, starttime, vsize, rss
    if (!fields) continue;
    use.cpu_s = (user + system) / ticks;
    use.memory = pages * page;
    const auto pid = static_cast<pid_t>(std::atol(entry->d_name));
    table.own_[pid] = use;
    table.children_.emplace(parent, pid);
  }
  return table;
}

ProcessUse ProcessTable::tree(pid_t root) const {
  const auto found = own_.find(root);
  if (found == own_.end()) return {};
  ProcessUse sum = found->second;
  const auto [begin, end] = children_.equal_range(root);
  for (auto child = begin; child != end; ++child) {
    const ProcessUse use = tree(child->second);
    sum.processes += use.processes;
    sum.threads += use.threads;
    sum.cpu_s += use.cpu_s;
    sum.memory += use.memory;
  }
  return sum;
}

}  // namespace dlaunch::launcher
