#include "runtime/record/call_stack.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <charconv>
#include <cstdint>

#include "runtime/base/demangled.h"
#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

namespace {

std::string hexadecimal(std::uintptr_t number) {
  std::array<char, 2 * sizeof number> digits{};
  char* const begin = digits.data();
  return "0x" + std::string(begin, std::to_chars(begin, begin + digits.size(), number, 16).ptr);
}

std::string place(void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  Dl_info info{};
  if (dladdr(address, &info) == 0 || !info.dli_fname) return hexadecimal(at);
  const std::string file = std::string(info.dli_fname) + "(+" +
                           hexadecimal(at - reinterpret_cast<std::uintptr_t>(info.dli_fbase)) + ")";
  return info.dli_sname ? demangled(info.dli_sname) + " in " + file : file;
}

}  // namespace

bool shows_call_stacks() {
  static const bool shows = [] {
    for (const char* const name : {"DLAUNCH_SHOW_CPP_STACKTRACES", "TORCH_SHOW_CPP_STACKTRACES"}) {
      if (const auto value = process_environment(name)) return *value == "1";
    }
    return false;
  }();
  return shows;
}

std::string call_stack() {
  std::array<void*, 128> addresses{};
  const int count = backtrace(addresses.data(), static_cast<int>(addresses.size()));
  std::string text = "call stack:";
  for (int i = 1; i < count; ++i) {
    text += "\n  #" + std::to_string(i - 1) + " " + place(addresses[static_cast<std::size_t>(i)]);
  }
  return text;
}

}  // namespace dlaunch::internal
