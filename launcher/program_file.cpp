#include "launcher/program_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "launcher/machine.h"

namespace dlaunch::launcher {
namespace {

// Empty: it cannot be read, which is said where it is to be started.
std::string beginning_of(const std::string& path) {
  constexpr std::size_t enough = 256;  // of a "#!" line the kernel reads no more
  std::string text(enough, '\0');
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return "";
  const ssize_t got = read(fd, text.data(), text.size());
  close(fd);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// It only lacks the right to be executed: Python would answer with a riddle.
bool is_plainly_no_python(std::string_view beginning) {
  if (beginning.starts_with("\177ELF")) return true;
  const std::string_view line = beginning.substr(0, beginning.find('\n'));
  return line.starts_with("#!") && line.find("python") == std::string_view::npos &&
         line.find("pypy") == std::string_view::npos;
}

}  // namespace

bool is_python_source(const std::string& program) {
  struct stat info {};
  if (stat(program.c_str(), &info) != 0) return false;
  if (!S_ISDIR(info.st_mode) && access(program.c_str(), X_OK) == 0) return false;
  if (find_program(program)) return false;  // PATH has another
  if (S_ISDIR(info.st_mode)) return access((program + "/__main__.py").c_str(), F_OK) == 0;
  return S_ISREG(info.st_mode) && !is_plainly_no_python(beginning_of(program));
}

Result<void> check_interpreter(const std::string& path) {
  const std::string beginning = beginning_of(path);
  const std::size_t end = beginning.find('\n');
  if (!beginning.starts_with("#!") || end == std::string::npos) return {};
  const std::size_t first = beginning.find_first_not_of(" \t", 2);
  std::string name = beginning.substr(first, beginning.find_first_of(" \t\n", first) - first);
  if (name.empty() || access(name.c_str(), F_OK) == 0) return {};
  const std::string why = std::strerror(errno);
  std::string hint = "correct its first line, or install what it names";
  if (name.ends_with('\r')) {
    name.pop_back();
    hint = "its lines end as on Windows; remove the carriage returns";
  }
  return Error{ErrorKind::not_found, "cannot start '" + path + "': its interpreter " + name, "", why, hint};
}

}  // namespace dlaunch::launcher
