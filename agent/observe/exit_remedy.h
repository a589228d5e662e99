// What a user can try after a worker's end, from its exit status, its last lines and the facts of its host.
// Pure; agent/observe/exit_facts.h collects the facts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/exit_status.h"

namespace dlaunch::agent {

// A limit of the kernel (getrlimit). None: unlimited, or not known.
struct SoftAndHard {
  std::optional<std::uint64_t> soft;
  std::optional<std::uint64_t> hard;
};

// The memory of a rank, in bytes. `is_peak`: the most that it held, since it has ended; else what it has now.
struct MemoryOfRank {
  int rank = 0;
  std::uint64_t bytes = 0;
  bool is_peak = false;
};

struct OutOfMemory {
  std::optional<std::uint64_t> limit;  // of a cgroup, in bytes; none: the machine's memory was full
  std::vector<MemoryOfRank> ranks;     // on this host, the failed one first
};

// What is known of a worker and its host besides exit status and last lines. Empty or none: not known.
struct ExitFacts {
  std::string host;
  std::vector<std::string> command;  // program and arguments
  std::string folder;                // the workers' working directory
  std::int64_t pid = 0;
  std::optional<OutOfMemory> out_of_memory;  // it, or a process of its own, was killed for lack of memory
  std::string
      task_limit{};  // what refused a process or thread: "pids.max is 12 in cgroup /job"; empty: nothing did
  bool was_killed_by_another = false;  // by SIGKILL, and not for lack of memory
  bool shared_memory_full = false;     // /dev/shm may have been
  SoftAndHard core;                    // in bytes
  SoftAndHard address_space;
  SoftAndHard file_size;
  SoftAndHard cpu_seconds;
  std::optional<std::uint64_t> most_open_files;  // the hard limit
  std::string core_pattern;
  bool core_uses_pid = false;  // kernel.core_uses_pid
  bool has_gdb = false;
  std::string source_lines_command{};            // shows the lines of the stack that its page has
  std::string library_folder;                    // has the shared library that was not found
  std::vector<std::string> full_file_systems{};  // "/tmp (50 GiB)"
  std::string missing_path{};  // a file that the last lines name, and that is not there, as an absolute path
  std::string existing_folder{};  // the innermost of its folders that is there
  bool is_compiled = false;       // the program is an ELF file
};

// One line without a final stop; empty: nothing that would help is known.
std::string remedy_of_exit(const ExitStatus& status, std::string_view last_lines, const ExitFacts& facts);

// Where the kernel puts a core dump of such a process, with "*" for what is not known. Empty: it passes core
// dumps to a program. `pid`: as text. REQUIRES: the pattern is known.
std::string core_file(const ExitFacts& facts, const std::string& pid);

}  // namespace dlaunch::agent
