// libFuzzer: a program or library that a crashed worker has overwritten. Names come from the file, or there
// are none; so do those of the libraries that it needs.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/elf_libraries.h"
#include "agent/model/elf_symbols.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::agent;

void fuzz(FuzzInput input) {
  const std::string_view file = input.text();
  const auto read = [&](std::uint64_t offset, std::size_t size) {
    return offset > file.size() ? std::string() : std::string(file.substr(offset, size));
  };
  const std::vector<std::uint64_t> addresses{0, 0x100, 0x200, UINT64_MAX};
  const std::vector<std::string> names = function_names(read, addresses);
  require(names.size() == addresses.size());
  for (const std::string& name : names) require(file.find(name) != std::string_view::npos);
  for (const std::string& name : needed_libraries(read)) require(file.find(name) != std::string_view::npos);
}

}  // namespace
