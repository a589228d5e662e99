#include "agent/model/elf_libraries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace dlaunch::agent {
namespace {

// This test's own program.
std::string own_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> needed_by(const std::string& file) {
  return needed_libraries([&](std::uint64_t offset, std::size_t size) {
    return offset > file.size() ? std::string() : file.substr(offset, size);
  });
}

TEST(ElfLibrariesTest, NamesTheLibrariesOfAProgram) {
  const std::vector<std::string> names = needed_by(own_program());
  EXPECT_NE(std::find(names.begin(), names.end(), "libc.so.6"), names.end());
}

TEST(ElfLibrariesTest, OtherFilesNameNone) {
  EXPECT_TRUE(needed_by("").empty());
  EXPECT_TRUE(needed_by("#!/bin/sh\n").empty());
  std::string cut = own_program();
  cut.resize(cut.size() / 2);  // the table of the sections is at the end
  EXPECT_TRUE(needed_by(cut).empty());
}

}  // namespace
}  // namespace dlaunch::agent
