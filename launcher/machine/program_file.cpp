#include "launcher/machine/program_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "launcher/flags/spelling.h"
#include "launcher/machine/machine.h"

namespace dlaunch::launcher {
namespace {

// Empty: it cannot be read; starting it reports the error.
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

// Such a file only lacks its execute permission. Python would fail with a misleading error.
bool is_plainly_no_python(std::string_view beginning) {
  if (beginning.starts_with("\177ELF")) return true;
  const std::string_view line = beginning.substr(0, beginning.find('\n'));
  return line.starts_with("#!") && line.find("python") == std::string_view::npos &&
         line.find("pypy") == std::string_view::npos;
}

// The names of executable files and Python scripts in this folder ("a/b/").
std::vector<std::string> programs_in(const std::string& folder) {
  constexpr std::size_t most = 20'000;
  std::vector<std::string> names;
  std::error_code failed;
  std::filesystem::directory_iterator entry(folder, failed);
  for (; !failed && entry != std::filesystem::directory_iterator() && names.size() < most;
       entry.increment(failed)) {
    const std::string path = entry->path().string();
    struct stat info {};
    if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (access(path.c_str(), X_OK) == 0 || path.ends_with(".py"))
      names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool is_python_source(const std::string& program) {
  struct stat info {};
  if (stat(program.c_str(), &info) != 0) return false;
  if (!S_ISDIR(info.st_mode) && access(program.c_str(), X_OK) == 0) return false;
  if (find_program(program)) return false;  // PATH has a program of this name
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
    hint = "it has Windows line ends; remove them: sed -i 's/\\r$//' " + path;
  }
  return Error{ErrorKind::not_found, "cannot start '" + path + "': its interpreter " + name, "", why, hint};
}

std::string similar_program(const std::string& typed) {
  constexpr std::size_t shortest = 4;  // PATH has something similar to any shorter name
  const std::size_t slash = typed.rfind('/');
  if (slash != std::string::npos) {
    const std::string folder = typed.substr(0, slash + 1);
    const std::string near = nearest(typed.substr(slash + 1), programs_in(folder));
    return near.empty() ? "" : folder + near;
  }
  if (const std::string here = nearest(typed, programs_in("./")); !here.empty()) return "./" + here;
  if (typed.size() < shortest) return "";
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread
  std::vector<std::string> programs;
  for (std::string_view rest = path ? path : ""; !rest.empty();) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::vector<std::string> some = programs_in(std::string(rest.substr(0, colon)) + "/");
    programs.insert(programs.end(), some.begin(), some.end());
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return nearest(typed, programs);
}

}  // namespace dlaunch::launcher
