#include "agent/observe/exit_facts.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

constexpr const char* linker =
    "./p: error while loading shared libraries: libx.so.1: cannot open shared object file: No such file";

TEST(ExitFacts, LimitsAreThoseOfThisProcess) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_CORE, &none), 0);
  ExitFacts facts;
  collect_facts("", facts);
  ASSERT_EQ(setrlimit(RLIMIT_CORE, &before), 0);
  EXPECT_EQ(facts.core.soft, std::optional<std::uint64_t>(0));
  EXPECT_EQ(facts.core.hard,
            before.rlim_max == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(before.rlim_max));
  EXPECT_FALSE(facts.core_pattern.empty());
}

TEST(ExitFacts, AMissingLibraryIsFoundBesideTheProgram) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/bin");
  std::filesystem::create_directories(folder.path() + "/lib");
  ExitFacts facts;
  facts.command = {folder.path() + "/bin/p"};
  collect_facts(linker, facts);
  EXPECT_EQ(facts.library_folder, "");
  std::ofstream(folder.path() + "/lib/libx.so.1") << "x";
  collect_facts("all is well", facts);
  EXPECT_EQ(facts.library_folder, "") << "nobody misses it";
  collect_facts(linker, facts);
  EXPECT_EQ(facts.library_folder, std::filesystem::canonical(folder.path() + "/lib"));
}

TEST(ExitFacts, AMissingFileIsLookedForInItsFolders) {
  const test::TemporaryFolder folder;
  const std::string words = ": No such file or directory";
  const auto look = [&](const std::string& path) {
    ExitFacts facts;
    facts.folder = folder.path();
    collect_facts("p: cannot read " + path + words, facts);
    return std::pair(facts.missing_path, facts.existing_folder);
  };
  const std::string path = folder.path() + "/a/b";
  EXPECT_EQ(look(path), std::pair(path, folder.path()));
  EXPECT_EQ(look("a/b"), std::pair(path, folder.path())) << "in the working directory";
  std::filesystem::create_directories(folder.path() + "/a");
  EXPECT_EQ(look(path), std::pair(path, folder.path() + "/a"));
  std::ofstream(folder.path() + "/a/b") << "x";
  EXPECT_EQ(look(path).first, "") << "it is there now";
}

TEST(ExitFacts, ACompiledProgramIsKnownByItsFirstBytes) {
  const test::TemporaryFolder folder;
  const auto is_compiled = [](const std::string& program) {
    ExitFacts facts;
    facts.command = {program};
    collect_facts("", facts);
    return facts.is_compiled;
  };
  EXPECT_TRUE(is_compiled("/proc/self/exe"));
  std::ofstream(folder.path() + "/script") << "#!/bin/sh\n";
  EXPECT_FALSE(is_compiled(folder.path() + "/script"));
  EXPECT_FALSE(is_compiled(folder.path() + "/none"));
  EXPECT_FALSE(is_compiled("p"));
}

TEST(ExitFacts, AFileSystemWithoutFilesIsNotFull) {
  ExitFacts facts;
  facts.folder = "/proc";
  collect_facts("write: No space left on device", facts);
  for (const std::string& full : facts.full_file_systems)
    EXPECT_EQ(full.find("/proc"), std::string::npos) << full;
}

}  // namespace
}  // namespace dlaunch::agent
