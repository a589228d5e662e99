#include "launcher/commands/process_table.h"

#include <dirent.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <memory>

#include "store/base/process_stat.h"

namespace dlaunch::launcher {

ProcessTable ProcessTable::read() {
  ProcessTable table;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  if (proc == nullptr) return table;
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  while (const dirent* entry = readdir(proc.get())) {  // NOLINT(concurrency-mt-unsafe): our own directory
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    const auto pid = static_cast<pid_t>(std::atol(entry->d_name));
    const auto stat = process_stat(pid);
    if (!stat) continue;  // it has ended meanwhile
    const ProcessUse use{1, stat->threads, static_cast<double>(stat->user + stat->system) / ticks,
                         stat->resident_pages * page};
    table.own_[pid] = use;
    table.children_.emplace(stat->parent, pid);
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
