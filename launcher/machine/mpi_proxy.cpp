#include "launcher/machine/mpi_proxy.h"

#include <unistd.h>

#include <string>

#include "store/base/process_stat.h"

namespace dlaunch::launcher {

std::string hydra_proxy() {
  // Scripts may be between Hydra and this process.
  for (pid_t pid = getppid(); pid > 0;) {
    const auto ancestor = process_stat(pid);
    if (!ancestor) return "";
    if (ancestor->name.starts_with("hydra_"))
      return std::to_string(pid) + "." + std::to_string(ancestor->birth);
    pid = ancestor->parent;
  }
  return "";
}

}  // namespace dlaunch::launcher
