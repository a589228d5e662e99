#include "agent/observe/exit_facts.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "agent/observe/memory_events.h"
#include "agent/observe/named_path.h"
#include "agent/observe/stderr_hints.h"
#include "store/base/small_file.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t longest_setting = 4096;

std::string setting(const char* path) {
  const auto file = read_plain_file(path, longest_setting);
  return file ? file->text.substr(0, file->text.find('\n')) : "";
}

// The workers have this process's limits; but their soft limit on open files is the one that dlaunch had
// before it raised its own.
SoftAndHard limit_of(__rlimit_resource_t resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return {};
  const auto value = [](rlim_t one) {
    return one == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(one);
  };
  return {value(limit.rlim_cur), value(limit.rlim_max)};
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// Beside the program, and beside dlaunch: where it is installed, so is its library.
std::string folder_with(const std::string& library, const ExitFacts& facts) {
  if (library.find('/') != std::string::npos) return "";
  std::string own(longest_setting, '\0');
  const ssize_t length = readlink("/proc/self/exe", own.data(), own.size());
  own.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::string program = facts.command.empty() ? "" : facts.command.front();
  for (const std::string& beside : {folder_of(program), folder_of(own)}) {
    if (beside.empty()) continue;
    for (const char* const inner : {"", "../lib", "../lib64", "lib"}) {
      std::error_code failed;
      const std::filesystem::path folder = std::filesystem::canonical(beside + inner, failed);
      if (!failed && access((folder / library).c_str(), R_OK) == 0) return folder.string();
    }
  }
  return "";
}

std::string absolute(const std::string& path, const ExitFacts& facts) {
  return path.starts_with('/') || path.empty() || facts.folder.empty() ? path : facts.folder + "/" + path;
}

// Only a path whose file system has answered that the file is not there.
void find_missing_path(std::string_view last_lines, ExitFacts& facts) {
  namespace fs = std::filesystem;
  const fs::path path = absolute(path_in_error(last_lines, "No such file or directory"), facts);
  std::error_code failed;
  if (!path.is_absolute() || fs::exists(path, failed)) return;
  fs::path folder = path.parent_path();
  while (folder.has_relative_path() && !fs::exists(folder, failed)) folder = folder.parent_path();
  facts.missing_path = path.string();
  facts.existing_folder = folder.string();
}

bool is_elf(const std::string& program) {
  constexpr std::string_view magic =
      "\x7f"
      "ELF";
  if (program.find('/') == std::string::npos) return false;  // found on PATH
  std::array<char, 4> begin{};
  std::ifstream(program, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == magic;
}

std::vector<std::string> full_file_systems(std::string_view last_lines, const ExitFacts& facts) {
  constexpr std::uint64_t little = 1ULL << 20;
  std::vector<std::string> full;
  std::set<unsigned long> seen;
  const char* const temporary = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string named = path_in_error(last_lines, "No space left on device");
  for (const std::string& place :
       {std::filesystem::path(absolute(named, facts)).parent_path().string(), facts.folder,
        std::string(temporary == nullptr ? "/tmp" : temporary), std::string("/dev/shm"), std::string("/")}) {
    struct statvfs space {};
    if (place.empty() || statvfs(place.c_str(), &space) != 0 || !seen.insert(space.f_fsid).second) continue;
    const bool no_bytes = space.f_blocks > 0 && std::uint64_t{space.f_bavail} * space.f_frsize < little;
    const bool no_files = space.f_files > 0 && space.f_favail == 0;
    if (no_bytes || no_files) {
      full.push_back("the file system of " + place + " (" +
                     (no_bytes ? in_bytes(std::uint64_t{space.f_blocks} * space.f_frsize)
                               : std::to_string(space.f_files) + " files") +
                     ")");
    }
  }
  return full;
}

}  // namespace

void collect_facts(std::string_view last_lines, ExitFacts& facts) {
  facts.core = limit_of(RLIMIT_CORE);
  facts.address_space = limit_of(RLIMIT_AS);
  facts.file_size = limit_of(RLIMIT_FSIZE);
  facts.cpu_seconds = limit_of(RLIMIT_CPU);
  facts.most_open_files = limit_of(RLIMIT_NOFILE).hard;
  facts.core_pattern = setting("/proc/sys/kernel/core_pattern");
  facts.core_uses_pid = setting("/proc/sys/kernel/core_uses_pid") == "1";
  for (const char* const gdb : {"/usr/bin/gdb", "/usr/local/bin/gdb", "/bin/gdb"})
    facts.has_gdb = facts.has_gdb || access(gdb, X_OK) == 0;
  if (const std::string library = missing_library(last_lines); !library.empty())
    facts.library_folder = folder_with(library, facts);
  if (last_lines.find("No space left on device") != std::string_view::npos)
    facts.full_file_systems = full_file_systems(last_lines, facts);
  find_missing_path(last_lines, facts);
  facts.is_compiled = is_elf(facts.command.empty() ? "" : facts.command.front());
}

}  // namespace dlaunch::agent
