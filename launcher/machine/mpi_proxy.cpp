#include "launcher/machine/mpi_proxy.h"

#include <unistd.h>

#include <optional>
#include <sstream>

#include "store/base/small_file.h"

namespace dlaunch::launcher {
namespace {

struct Ancestor {
  std::string name;
  pid_t parent = 0;
  std::string began;  // clock ticks since the machine's start
};

// /proc/PID/stat: "PID (NAME) STATE PARENT ... BEGAN ...", where the name may contain any characters.
std::optional<Ancestor> look_at(pid_t pid) {
  constexpr std::size_t most = 4096;
  const auto file = read_plain_file("/proc/" + std::to_string(pid) + "/stat", most);
  if (!file) return std::nullopt;
  const std::size_t open = file->text.find('(');
  const std::size_t close = file->text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  Ancestor out;
  out.name = file->text.substr(open + 1, close - open - 1);
  std::istringstream fields(file->text.substr(close + 1));
  std::string skipped;
  fields >> skipped >> out.parent;
  for (int i = 0; i < 17; ++i) fields >> skipped;
  fields >> out.began;
  return fields ? std::optional(out) : std::nullopt;
}

}  // namespace

std::string hydra_proxy() {
  // Scripts may be between Hydra and this process.
  for (pid_t pid = getppid(); pid > 0;) {
    const auto ancestor = look_at(pid);
    if (!ancestor) return "";
    if (ancestor->name.starts_with("hydra_")) return std::to_string(pid) + "." + ancestor->began;
    pid = ancestor->parent;
  }
  return "";
}

}  // namespace dlaunch::launcher
