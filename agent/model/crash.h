// How a worker crashed, as its page shows it (store/contract/crash_page.h), and that in words. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/base/bytes.h"
#include "store/contract/worker_page.h"

namespace dlaunch::agent {

struct CrashFrame {
  std::string module;        // the path of the program or library; empty: not known
  std::uint64_t offset = 0;  // an address within the instruction, as the module counts it
  std::string function{};    // demangled; empty: not known
};

struct Crash {
  std::int64_t pid = 0;
  int signal = 0;
  int code = 0;               // siginfo_t::si_code
  std::uint64_t address = 0;  // that the signal names; of a sent one, the sender's pid
  bool terminate = false;     // std::terminate was called
  std::string what;           // for this exception; empty: for none, or it was not called
  std::vector<CrashFrame> frames;
};

// From the header of a page; any bytes. None: it shows no crash.
std::optional<Crash> parse_crash(ByteSpan header);

// The same for the stack of a process that lives: `address` is when it was written, by the steady clock.
// None: it shows none.
std::optional<Crash> parse_stack(ByteSpan header);

// Without the frames that lead from an error to its signal: abort, std::terminate and their kin.
std::vector<CrashFrame> frames_of_program(const Crash& crash);

// "segmentation fault at address 0x8 (a null pointer), in step(int)";
// "std::runtime_error: loss is NaN, thrown in step(int)".
std::string cause_of(const Crash& crash);

// A line a frame, down to main: "#0 step(int) in train+0x1234". At most 12.
std::string stack_of(const Crash& crash);

// The command that shows the source lines of the program's innermost frames: "addr2line -Cfpie /x/train
// 0x1234"; empty: no frame is the program's.
std::string source_lines_command(const Crash& crash);

}  // namespace dlaunch::agent
