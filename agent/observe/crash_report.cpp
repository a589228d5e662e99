#include "agent/observe/crash_report.h"

#include <cxxabi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "agent/model/elf_symbols.h"
#include "agent/observe/plain_file.h"
#include "store/base/sanitize.h"
#include "store/base/small_file.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t most_named_frames = 24;

// As the program's source has it.
std::string readable(std::string name) {
  constexpr std::string_view string =
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  for (std::size_t at = name.find(string); at != std::string::npos; at = name.find(string, at))
    name.replace(at, string.size(), "std::string");
  return name.substr(0, name.find(" [clone "));  // parts that the compiler has split off
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return sanitize_for_terminal(status == 0 ? readable(name.get()) : symbol);
}

void name_frames_of(const std::string& path, std::span<CrashFrame> frames) {
  std::vector<CrashFrame*> here;
  std::vector<std::uint64_t> addresses;
  for (CrashFrame& frame : frames) {
    if (frame.module != path) continue;
    here.push_back(&frame);
    addresses.push_back(frame.offset);
  }
  const PlainFile module(path);
  const auto names = function_names(
      [&](std::uint64_t offset, std::size_t size) { return module.read(offset, size); }, addresses);
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (!names[i].empty()) here[i]->function = demangled(names[i]);
  }
}

void name_frames(Crash& crash) {
  const std::span frames = std::span(crash.frames).first(std::min(crash.frames.size(), most_named_frames));
  std::set<std::string> modules;
  for (const CrashFrame& frame : frames) modules.insert(frame.module);
  for (const std::string& module : modules) {
    if (module.starts_with('/')) name_frames_of(module, frames);
  }
}

std::string header_of(const std::string& page) {
  const auto header = read_plain_file(page, sizeof(page::Header));
  return header ? header->text : "";
}

// The page may be older than a program that the worker has executed meanwhile.
bool has_handler(std::int64_t pid, int signo) {
  constexpr std::size_t enough = 8192;
  constexpr std::string_view label = "\nSigCgt:";
  const auto status = read_plain_file("/proc/" + std::to_string(pid) + "/status", enough);
  const std::size_t at = status ? status->text.find(label) : std::string::npos;
  if (at == std::string::npos) return false;
  const std::uint64_t caught = std::strtoull(status->text.c_str() + at + label.size(), nullptr, 16);
  return (caught >> (signo - 1) & 1U) != 0;
}

}  // namespace

std::optional<Crash> read_crash(const std::string& page) {
  auto crash = parse_crash(as_byte_span(header_of(page)));
  if (crash && crash->signal != SIGBUS) name_frames(*crash);
  return crash;
}

void request_stack(const std::string& page) {
  const std::string bytes = header_of(page);
  if (bytes.size() < sizeof(page::Header)) return;
  page::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const bool offers = header.magic == page::magic && header.owner > 0 && header.crash.samples == 1;
  if (!offers || !has_handler(header.owner, page::stack_signal)) return;
  (void)syscall(SYS_tgkill, header.owner, header.owner, page::stack_signal);
}

std::optional<Crash> read_stack(const std::string& page, TimePoint since) {
  auto stack = parse_stack(as_byte_span(header_of(page)));
  if (!stack || stack->address < static_cast<std::uint64_t>(since.time_since_epoch().count()))
    return std::nullopt;
  name_frames(*stack);
  return stack;
}

}  // namespace dlaunch::agent
