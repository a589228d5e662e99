#include "launcher/machine/port_owner.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "store/base/number.h"
#include "store/base/sanitize.h"

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

// Of the listening sockets in a table of the kernel, /proc/net/tcp for example: "socket:[INODE]".
void add_listeners(const char* table, std::uint16_t port, std::set<std::string>& sockets) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the names of the columns
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    std::array<std::string, 10> column;
    for (std::string& text : column) columns >> text;
    const auto& [number, local, remote, state, queues, timer, retransmits, user, timeout, inode] = column;
    const auto at = parse_number<std::uint32_t>(local.substr(local.rfind(':') + 1), 16);
    if (state == "0A" && at == port) sockets.insert("socket:[" + inode + "]");
  }
}

bool holds_one_of(const std::set<std::string>& sockets, const fs::path& process) {
  std::error_code failure;
  for (fs::directory_iterator file(process / "fd", failure); !failure && file != fs::directory_iterator();
       file.increment(failure)) {
    std::error_code unreadable;
    if (sockets.contains(fs::read_symlink(file->path(), unreadable).string())) return true;
  }
  return false;
}

std::string name_of(const fs::path& process) {
  std::ifstream file(process / "comm");
  std::string name;
  std::getline(file, name);
  return sanitize_for_terminal(name);
}

}  // namespace

std::optional<PortOwner> find_port_owner(std::uint16_t port) {
  std::set<std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) add_listeners(table, port, sockets);
  if (sockets.empty()) return std::nullopt;
  std::error_code failure;
  for (fs::directory_iterator entry("/proc", failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    const auto pid = parse_number<pid_t>(entry->path().filename().string());
    if (pid && holds_one_of(sockets, entry->path())) return PortOwner{*pid, name_of(entry->path())};
  }
  return std::nullopt;
}

Error name_port_owner(Error error, std::uint16_t port) {
  if (error.kind != ErrorKind::in_use) return error;
  if (const auto owner = find_port_owner(port))
    error.why += " by process " + std::to_string(owner->pid) + " (" + owner->program + ")";
  return error;
}

}  // namespace dlaunch::launcher
