#include "launcher/machine/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/runtime/api/variable.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::launcher {
namespace {

TEST(Machine, OnlyAllowedCpusCount) {
  const Cpus all = allowed_cpus();
  ASSERT_FALSE(all.empty());
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(all.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(allowed_cpus(), Cpus{all.back()});
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Machine, AVariablesValueMayHaveAnEqualsSign) {
  const test::Variable variable("DLAUNCH_TEST_VARIABLE", "a=b");
  EXPECT_EQ(environment().at("DLAUNCH_TEST_VARIABLE"), "a=b");
  variable.set("");
  EXPECT_EQ(environment().at("DLAUNCH_TEST_VARIABLE"), "");
}

TEST(Machine, ASmallFileIsReadWhole) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  const std::string most(1 << 20, 'x');
  std::ofstream(path) << most;
  EXPECT_EQ(*read_small_file(path), most);
  std::ofstream(path, std::ios::app) << 'x';
  EXPECT_EQ(read_small_file(path).error().message(), "cannot read " + path + ": it is larger than 1 MiB");
  EXPECT_EQ(read_small_file(folder.path()).error().message(),
            "cannot read " + folder.path() + ": it is a directory");
  EXPECT_EQ(read_small_file(path + "x").error().message(),
            "cannot read " + path + "x: No such file or directory");
}

// PATH and the working directory are the folder.
class FindProgram : public testing::Test {
 protected:
  FindProgram() {
    std::filesystem::current_path(folder_.path());
    std::filesystem::create_directories("bin/folder");
  }
  ~FindProgram() override { std::filesystem::current_path(before_); }
  static void write(const std::string& path, mode_t mode) {
    std::ofstream(path) << "#!/bin/sh\n";
    chmod(path.c_str(), mode);
  }
  static std::string why_not(const std::string& name) {
    const auto found = find_program(name);
    EXPECT_FALSE(found.ok());
    return found ? *found : found.error().message();
  }
  test::TemporaryFolder folder_;
  std::filesystem::path before_ = std::filesystem::current_path();
  test::Variable path_{"PATH", (folder_.path() + "/none:" + folder_.path() + "/bin").c_str()};
};

TEST_F(FindProgram, SearchesPathForANameAndTakesAPathAsItIs) {
  write("bin/train", 0755);
  EXPECT_EQ(*find_program("train"), folder_.path() + "/bin/train");
  EXPECT_EQ(*find_program("bin/train"), "bin/train");
  path_.set("/none:");
  write("here", 0755);
  EXPECT_EQ(*find_program("here"), "./here") << "an empty entry is the working directory";
}

TEST_F(FindProgram, TheErrorHasTheRemedy) {
  write("train", 0755);
  write("script", 0644);
  EXPECT_EQ(why_not("train"), "cannot start 'train': it is not on PATH; did you mean ./train?");
  EXPECT_EQ(why_not("script"),
            "cannot start 'script': it may not be executed; chmod +x script, and start ./script");
  EXPECT_EQ(why_not("./script"), "cannot start './script': it may not be executed; chmod +x ./script");
  EXPECT_EQ(why_not("./none"), "cannot start './none': No such file or directory; check the path");
  EXPECT_EQ(why_not("none"), "cannot start 'none': no such program on PATH; check its name, or give a path");
  EXPECT_EQ(why_not("bin"), "cannot start 'bin': it is a directory");
  EXPECT_EQ(why_not("./bin"), "cannot start './bin': it is a directory");
  EXPECT_EQ(why_not("folder"),
            "cannot start 'folder': no such program on PATH; check its name, or give a path");
  EXPECT_EQ(why_not(""), "cannot start '': its name is empty");
}

}  // namespace
}  // namespace dlaunch::launcher
