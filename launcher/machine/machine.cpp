#include "launcher/machine/machine.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

extern char** environ;

namespace dlaunch::launcher {
namespace {

bool is_folder(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Cpus allowed_cpus() {
  // Large enough for any machine the kernel supports.
  constexpr int most = 8192;
  cpu_set_t* set = CPU_ALLOC(most);
  const std::size_t size = CPU_ALLOC_SIZE(most);
  Cpus out;
  if (sched_getaffinity(0, size, set) == 0) {
    const int count = CPU_COUNT_S(size, set);
    for (int cpu = 0; cpu < most && static_cast<int>(out.size()) < count; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), size, set)) out.push_back(cpu);
    }
  }
  CPU_FREE(set);
  return out.empty() ? Cpus{0} : out;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

EnvironmentMap environment() {
  EnvironmentMap out;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

Result<std::string> read_small_file(const std::string& path) {
  constexpr std::size_t most = 1 << 20;
  const auto cannot = [&](std::string why) {
    return Error{ErrorKind::io, "cannot read", path, std::move(why), ""};
  };
  if (is_folder(path)) return cannot("it is a directory");
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (!file) return cannot(std::strerror(errno));
  std::string text(most + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return cannot("reading failed");
  if (text.size() > most) return cannot("it is larger than 1 MiB");
  return text;
}

Result<std::string> find_program(const std::string& name) {
  const auto cannot = [&](std::string why, std::string hint) {
    return Error{ErrorKind::not_found, "cannot start '" + name + "'", "", std::move(why), std::move(hint)};
  };
  if (name.empty()) return cannot("its name is empty", "");
  if (name.find('/') != std::string::npos) {
    if (is_folder(name)) return cannot("it is a directory", "");
    if (access(name.c_str(), F_OK) != 0) return cannot(std::strerror(errno), "check the path");
    if (access(name.c_str(), X_OK) != 0) return cannot("it may not be executed", "chmod +x " + name);
    return name;
  }
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread
  std::string_view rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const auto colon = rest.find(':');
    std::string folder(rest.substr(0, colon));
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0 && !is_folder(candidate)) return candidate;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (is_folder(name)) return cannot("it is a directory", "");
  if (access(name.c_str(), X_OK) == 0) return cannot("it is not on PATH", "did you mean ./" + name + "?");
  if (access(name.c_str(), F_OK) == 0)
    return cannot("it may not be executed", "chmod +x " + name + ", and start ./" + name);
  return cannot("no such program on PATH", "check its name, or give a path");
}

}  // namespace dlaunch::launcher
