#include "agent/model/crash.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string_view>

#include "agent/model/exit_status.h"
#include "agent/model/page_reading.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t longest_name = 120;

std::string hexadecimal(std::uint64_t number) {
  std::array<char, 2 * sizeof number> digits{};
  char* const begin = digits.data();
  return "0x" + std::string(begin, std::to_chars(begin, begin + digits.size(), number, 16).ptr);
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Libraries between an error and the signal that it raises.
bool is_of_runtime(const CrashFrame& frame) {
  constexpr std::array<std::string_view, 8> names{"libc.so",      "libstdc++.so", "libc++.so",
                                                  "libc++abi.so", "libgcc_s.so",  "libdlaunch.",
                                                  "libasan.",     "libpthread.so"};
  const std::string file = file_name(frame.module);
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return file.starts_with(name); });
}

bool is_of_program(const CrashFrame& frame) { return !frame.module.empty() && !is_of_runtime(frame); }

std::string place(const CrashFrame& frame) {
  const std::string module = frame.module.empty() ? "" : file_name(frame.module) + "+";
  return module + hexadecimal(frame.offset);
}

std::string name_of(const CrashFrame& frame) {
  return frame.function.empty() ? place(frame) : shortened(frame.function, longest_name);
}

std::string integer_error(int code) {
  if (code == FPE_INTDIV) return "integer division by zero";
  if (code == FPE_INTOVF) return "integer overflow";
  return "arithmetic error";
}

std::string at_address(const Crash& crash) {
  constexpr std::uint64_t first_page = 4096;
  if (crash.code == SI_KERNEL) return " at an address that cannot exist";
  return " at address " + hexadecimal(crash.address) +
         (crash.address < first_page ? " (a null pointer)" : "");
}

// The signal alone.
std::string fault_of(const Crash& crash) {
  if (crash.terminate)
    return crash.what.empty() ? "std::terminate was called without an exception" : crash.what;
  if (crash.signal == SIGABRT) return "aborted";
  if (crash.code <= 0) {
    return static_cast<std::int64_t>(crash.address) == crash.pid
               ? "raised by the process itself"
               : "sent by process " + std::to_string(crash.address);
  }
  switch (crash.signal) {
    case SIGSEGV:
      return "segmentation fault" + at_address(crash);
    case SIGBUS:
      return "bus error" + at_address(crash);
    case SIGFPE:
      return integer_error(crash.code);
    case SIGILL:
      return "illegal instruction";
    default:
      return signal_name(crash.signal);
  }
}

std::optional<Crash> parse(ByteSpan header, page::Crash::State state) {
  if (header.size() < sizeof(page::Header)) return std::nullopt;
  page::Header whole;
  std::memcpy(&whole, header.data(), sizeof whole);
  const page::Crash& raw = whole.crash;
  const bool is_valid = whole.magic == page::magic && whole.version == page::version && whole.owner > 0 &&
                        raw.state == state && raw.signal > 0 && raw.signal < NSIG &&
                        raw.frames <= page::Crash::max_frames && raw.modules <= page::Crash::max_modules;
  if (!is_valid) return std::nullopt;
  Crash crash{whole.owner, raw.signal, raw.code, raw.address, raw.terminate == 1, text_of(raw.what), {}};
  for (std::size_t i = 0; i < raw.frames; ++i) {
    const std::size_t module = raw.module_of[i];
    crash.frames.push_back({module < raw.modules ? text_of(raw.paths[module]) : "", raw.offsets[i]});
  }
  return crash;
}

}  // namespace

std::optional<Crash> parse_crash(ByteSpan header) { return parse(header, page::Crash::whole); }

std::optional<Crash> parse_stack(ByteSpan header) { return parse(header, page::Crash::sampled); }

std::vector<CrashFrame> frames_of_program(const Crash& crash) {
  if (crash.signal != SIGABRT) return crash.frames;
  const auto first = std::find_if_not(crash.frames.begin(), crash.frames.end(), is_of_runtime);
  return first == crash.frames.end() ? crash.frames : std::vector(first, crash.frames.end());
}

std::string cause_of(const Crash& crash) {
  std::string text = fault_of(crash);
  const std::vector<CrashFrame> frames = frames_of_program(crash);
  if (frames.empty()) return text;
  text += (crash.what.empty() ? ", in " : ", thrown in ") + name_of(frames.front());
  const auto caller = std::find_if(frames.begin(), frames.end(), is_of_program);
  if (caller != frames.begin() && caller != frames.end()) text += ", called by " + name_of(*caller);
  return text;
}

std::string stack_of(const Crash& crash) {
  constexpr std::size_t shown = 12;
  std::string text;
  std::vector<CrashFrame> frames = frames_of_program(crash);
  const auto main = std::ranges::find(frames, "main", &CrashFrame::function);
  if (main != frames.end()) frames.erase(main + 1, frames.end());  // how the program was started
  for (std::size_t i = 0; i < std::min(frames.size(), shown); ++i) {
    const CrashFrame& frame = frames[i];
    text += (i == 0 ? "#" : "\n#") + std::to_string(i) + " " + name_of(frame);
    if (!frame.function.empty()) text += " in " + place(frame);
  }
  if (frames.size() > shown) text += "\n... and " + std::to_string(frames.size() - shown) + " more";
  return text;
}

std::string source_lines_command(const Crash& crash) {
  constexpr std::size_t most = 4;
  const std::vector<CrashFrame> frames = frames_of_program(crash);
  const auto first = std::find_if(frames.begin(), frames.end(), is_of_program);
  if (first == frames.end()) return "";
  std::string text = "addr2line -Cfpie " + first->module;
  std::size_t count = 0;
  for (auto frame = first; frame != frames.end() && count < most; ++frame) {
    if (frame->module != first->module) continue;
    text += " " + hexadecimal(frame->offset);
    ++count;
  }
  return text;
}

}  // namespace dlaunch::agent
