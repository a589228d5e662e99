#include "agent/observe/exit_remedy.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "agent/model/exit_status.h"
#include "agent/observe/library_remedy.h"
#include "agent/observe/memory_events.h"
#include "agent/observe/stderr_hints.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t longest_remedy = 500;
constexpr int not_executable = 126;  // the shell's exit code

bool has(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

std::string on_host(const ExitFacts& facts) { return facts.host.empty() ? "" : " on host " + facts.host; }

std::string program_of(const ExitFacts& facts) {
  return facts.command.empty() ? "PROGRAM" : facts.command.front();
}

bool is_python(const ExitFacts& facts) {
  const std::string program = program_of(facts);
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

// --- memory ---

std::string describe(const MemoryOfRank& use) {
  return "rank " + std::to_string(use.rank) + (use.is_peak ? " held up to " : " holds ") +
         in_bytes(use.bytes);
}

std::string remedy_of_memory(const OutOfMemory& memory, const ExitFacts& facts) {
  std::string text = memory.limit ? "raise the memory limit of " + in_bytes(*memory.limit)
                                  : "use a machine with more memory than host " + facts.host;
  text += memory.ranks.size() > 1 ? ", or start fewer ranks" + on_host(facts) + " (--nproc-per-node)"
                                  : ", or let the program use less";
  constexpr std::size_t shown = 8;
  for (std::size_t i = 0; i < std::min(memory.ranks.size(), shown); ++i)
    text += (i == 0 ? ": " : ", ") + describe(memory.ranks[i]);
  if (memory.ranks.size() > shown) text += ", ...";
  return text;
}

// --- core dumps ---

std::string with_debugger(const ExitFacts& facts) {
  return "dlaunch ... gdb -batch -ex run -ex bt --args " + program_of(facts) + " ...";
}

std::string remedy_after_core_dump(const ExitFacts& facts) {
  if (facts.core_pattern.empty()) return "open the core dump with gdb" + on_host(facts);
  const std::string file = core_file(facts, std::to_string(facts.pid));
  if (!file.empty()) return "gdb -batch -ex bt " + program_of(facts) + " " + file + on_host(facts);
  if (has(facts.core_pattern, "systemd-coredump"))
    return "coredumpctl gdb " + std::to_string(facts.pid) + on_host(facts);
  return "open the core dump with gdb" + on_host(facts) + "; the kernel has passed it to " +
         facts.core_pattern.substr(1, facts.core_pattern.find(' ') - 1);
}

std::string remedy_without_core_dump(std::string_view last_lines, const ExitFacts& facts) {
  if (!facts.source_lines_command.empty())
    return facts.source_lines_command + on_host(facts) +
           " shows the source lines, if they were compiled with -g";
  if (is_python(facts) && has(last_lines, "Fatal Python error: ")) return "";  // its stack follows that
  if (is_python(facts))
    return "dlaunch --export=PYTHONFAULTHANDLER=1 ... prints the Python stack when it happens again";
  const bool is_off = facts.core.soft == 0U && !facts.core_pattern.starts_with('|');
  if (is_off && facts.core.hard != 0U) {
    const std::string file = facts.core_pattern.empty() ? "CORE" : core_file(facts, "*");
    return "'ulimit -c unlimited' before dlaunch (it is 0" + on_host(facts) + "), then gdb -batch -ex bt " +
           program_of(facts) + " " + file;
  }
  if (facts.has_gdb) return with_debugger(facts) + " prints the stack when it happens again";
  if (is_off) {
    return "allow core dumps" + on_host(facts) +
           " (ulimit -Hc is 0: /etc/security/limits.conf, LimitCORE= of systemd, docker --ulimit core=-1), " +
           "or install gdb there";
  }
  return "";
}

std::string remedy_of_fatal_signal(const ExitStatus& status, std::string_view last_lines,
                                   const ExitFacts& facts) {
  constexpr std::array fatal{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
  const int signo = status.shell_code() - 128;
  if (std::find(fatal.begin(), fatal.end(), signo) == fatal.end()) return "";
  if (signo == SIGBUS && facts.shared_memory_full) {
    return "free space in /dev/shm" + on_host(facts) +
           ", or make it larger (mount -o remount,size=..., docker --shm-size)";
  }
  if (signo == SIGILL) {
    return "build the program for the processor of host " + facts.host +
           ": it used an instruction that this processor does not have (-march=native elsewhere?)";
  }
  return status.core_dumped ? remedy_after_core_dump(facts) : remedy_without_core_dump(last_lines, facts);
}

// --- limits ---

std::string raise_limit(const char* flag, const std::string& value, const SoftAndHard& limit,
                        const ExitFacts& facts) {
  return std::string("raise ulimit ") + flag + on_host(facts) + ": it is " + value +
         (limit.hard == limit.soft ? ", as is the hard limit, which only root may raise" : "");
}

std::string remedy_of_limit(const ExitStatus& status, std::string_view last_lines, const ExitFacts& facts) {
  const int signo = status.shell_code() - 128;
  if (signo == SIGXCPU && facts.cpu_seconds.soft)
    return raise_limit("-t", std::to_string(*facts.cpu_seconds.soft) + " s", facts.cpu_seconds, facts);
  const bool file_too_large = signo == SIGXFSZ || has(last_lines, "File too large");
  if (file_too_large && facts.file_size.soft)
    return raise_limit("-f", in_bytes(*facts.file_size.soft), facts.file_size, facts);
  if (has(last_lines, "Too many open files")) {
    return "raise ulimit -n" + on_host(facts) + " before dlaunch starts" +
           (facts.most_open_files ? "; its hard limit is " + std::to_string(*facts.most_open_files) : "");
  }
  constexpr std::array<std::string_view, 3> no_memory{"std::bad_alloc", "MemoryError",
                                                      "Cannot allocate memory"};
  const bool lacks_memory = std::any_of(no_memory.begin(), no_memory.end(),
                                        [&](std::string_view words) { return has(last_lines, words); });
  if (lacks_memory && facts.address_space.soft)
    return raise_limit("-v", in_bytes(*facts.address_space.soft), facts.address_space, facts);
  return "";
}

// --- what is missing ---

std::string remedy_of_full_disk(std::string_view last_lines, const ExitFacts& facts) {
  if (!has(last_lines, "No space left on device")) return "";
  if (facts.full_file_systems.empty())
    return "df -h and df -i" + on_host(facts) + " show which file system is full";
  return "free space" + on_host(facts) + " in " + join(facts.full_file_systems, ", ");
}

std::string remedy_of_missing_path(const ExitFacts& facts) {
  if (facts.missing_path.empty()) return "";
  const std::string& folder = facts.existing_folder;
  const std::size_t next = facts.missing_path.find('/', folder.size() + (folder == "/" ? 0 : 1));
  const std::string absent = facts.missing_path.substr(0, next);
  return "correct the path, or copy or mount the file" + on_host(facts) + ": it has " + folder + ", but no " +
         absent;
}

// The program wrote no reason, so only a debugger can show where it ended.
std::string remedy_of_silent_exit(const ExitStatus& status, std::string_view last_lines,
                                  const ExitFacts& facts) {
  const bool has_exited = status.how == ExitStatus::How::exited;
  if (!has_exited || !last_lines.empty() || !facts.is_compiled || !facts.has_gdb) return "";
  return "it wrote nothing; dlaunch ... gdb -batch -ex 'catch syscall exit_group' -ex run -ex bt --args " +
         program_of(facts) + " ... prints the stack from which it exits";
}

// The Python package and the program's module need not have the same name.
std::string remedy_of_missing_module(std::string_view last_lines, const ExitFacts& facts) {
  constexpr std::string_view words = "No module named '";
  const std::size_t found = last_lines.rfind(words);
  if (found == std::string_view::npos || !is_python(facts)) return "";
  const std::string_view rest = last_lines.substr(found + words.size());
  const std::size_t end = rest.find_first_of("'\n");
  if (end == std::string_view::npos || rest[end] != '\'') return "";
  const std::string_view module = rest.substr(0, std::min(end, rest.find('.')));
  return "install the package of " + std::string(module) + " for " + program_of(facts) + on_host(facts) +
         ", or start dlaunch in the environment that has it";
}

// The command that a shell could not start: "sh: 1: NAME: not found". Empty: the last lines name none.
std::string command_in(std::string_view last_lines, std::string_view why) {
  const std::size_t found = last_lines.rfind(why);
  if (found == std::string_view::npos) return "";
  std::string_view line = last_lines.substr(0, found);
  line.remove_prefix(std::min(line.size(), line.rfind('\n') + 1));
  const std::size_t before = line.rfind(": ");
  return before == std::string_view::npos ? "" : std::string(line.substr(before + 2));
}

std::string remedy_of_missing_program(const ExitStatus& status, std::string_view last_lines,
                                      const ExitFacts& facts) {
  const int code = status.how == ExitStatus::How::exited ? status.number : 0;
  if (code == not_executable) {
    const std::string name = command_in(last_lines, ": Permission denied");
    return name.empty()
               ? ""
               : "chmod +x " + name + on_host(facts) + "; check that its file system is not mounted noexec";
  }
  if (code != not_found_code) return "";
  if (const std::string library = missing_library(last_lines); !library.empty()) {
    if (!facts.library_folder.empty())
      return "dlaunch --export=LD_LIBRARY_PATH=" + facts.library_folder + " ... (" + library + " is there" +
             on_host(facts) + ")";
    return "ldd " + program_of(facts) + on_host(facts) + " lists what is missing; add the folder of " +
           library + " to LD_LIBRARY_PATH, or link the program with -Wl,-rpath";
  }
  std::string name = command_in(last_lines, ": command not found");
  if (name.empty()) name = command_in(last_lines, ": not found");
  return name.empty() ? "" : "install " + name + on_host(facts) + ", or give its full path";
}

std::string choose(const ExitStatus& status, std::string_view last_lines, const ExitFacts& facts) {
  if (facts.out_of_memory) return remedy_of_memory(*facts.out_of_memory, facts);
  if (!facts.task_limit.empty()) {
    return "raise the limit on processes" + on_host(facts) + " (" + facts.task_limit +
           "), or start fewer processes and threads";
  }
  if (std::string text = remedy_of_limit(status, last_lines, facts); !text.empty()) return text;
  if (std::string text = remedy_of_full_disk(last_lines, facts); !text.empty()) return text;
  if (std::string text = remedy_of_missing_module(last_lines, facts); !text.empty()) return text;
  if (std::string text = remedy_of_missing_program(status, last_lines, facts); !text.empty()) return text;
  if (std::string text = remedy_of_library_error(last_lines, program_of(facts), on_host(facts));
      !text.empty())
    return text;
  if (std::string text = remedy_of_missing_path(facts); !text.empty()) return text;
  if (std::string text = remedy_of_silent_exit(status, last_lines, facts); !text.empty()) return text;
  if (facts.was_killed_by_another) {
    return "dmesg, journalctl and the log of the scheduler or container runtime" + on_host(facts) +
           " may name who killed it";
  }
  return remedy_of_fatal_signal(status, last_lines, facts);
}

}  // namespace

std::string remedy_of_exit(const ExitStatus& status, std::string_view last_lines, const ExitFacts& facts) {
  return shortened(sanitize_for_terminal(choose(status, last_lines, facts)), longest_remedy);
}

std::string core_file(const ExitFacts& facts, const std::string& pid) {
  std::string_view pattern = facts.core_pattern;
  if (pattern.starts_with('|')) return "";
  constexpr std::size_t longest_comm = 15;
  const std::string program = program_of(facts);
  std::string file;
  bool has_pid = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      file += pattern[i];
      continue;
    }
    const char what = pattern[++i];
    has_pid = has_pid || what == 'p';
    switch (what) {
      case '%':
        file += '%';
        break;
      case 'p':
      case 'P':
        file += pid;
        break;
      case 'e':
        file += program.substr(program.rfind('/') + 1).substr(0, longest_comm);
        break;
      default:
        file += '*';
    }
  }
  if (facts.core_uses_pid && !has_pid) file += "." + pid;
  return file.starts_with('/') || facts.folder.empty() ? file : facts.folder + "/" + file;
}

}  // namespace dlaunch::agent
