#include "agent/scratch_dir.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace dlaunch::agent {

Result<std::string> make_scratch_dir(const std::string& temporary) {
  std::string path = temporary + "/dlaunch-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return Error{ErrorKind::io, "cannot make a directory in", temporary, std::strerror(errno),
                 "make room there, or point TMPDIR elsewhere"};
  }
  return path;
}

void remove_scratch_dir(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace dlaunch::agent
