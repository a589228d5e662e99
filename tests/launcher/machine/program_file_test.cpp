#include "launcher/machine/program_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

class ProgramFile : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text, bool executable = false) {
    const fs::path path = fs::path(folder_.path()) / name;
    std::ofstream(path) << text;
    if (executable) fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }

  const test::TemporaryFolder folder_;
};

TEST_F(ProgramFile, PythonSourceIsRecognisedByItsContent) {
  EXPECT_TRUE(is_python_source(write("train", "import torch\n")));
  EXPECT_TRUE(is_python_source(write("script", "#!/usr/bin/env python3\n")));
  EXPECT_FALSE(is_python_source(write("shell", "#!/bin/sh\n")));
  EXPECT_FALSE(is_python_source(write("binary", "\177ELF...")));
  EXPECT_FALSE(is_python_source(write("executable", "import torch\n", true)));
  EXPECT_FALSE(is_python_source(fs::path(folder_.path()) / "missing"));
}

TEST_F(ProgramFile, ADirectoryIsPythonIfItHasAMain) {
  const fs::path package = fs::path(folder_.path()) / "package";
  fs::create_directory(package);
  EXPECT_FALSE(is_python_source(package.string()));
  write("package/__main__.py", "");
  EXPECT_TRUE(is_python_source(package.string()));
}

TEST_F(ProgramFile, AMissingInterpreterIsNamed) {
  EXPECT_TRUE(check_interpreter(write("good", "#!/bin/sh -e\n", true)));
  EXPECT_TRUE(check_interpreter(write("text", "no interpreter\n", true)));
  const std::string bad = write("bad", "#!/nowhere/python -u\n", true);
  const auto checked = check_interpreter(bad);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message(),
            "cannot start '" + bad +
                "': its interpreter /nowhere/python: No such file or directory; correct its first line, or "
                "install what it names");
}

TEST_F(ProgramFile, WindowsLineEndsAreExplained) {
  const std::string path = write("windows", "#!/bin/sh\r\n", true);
  const auto checked = check_interpreter(path);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().hint, "it has Windows line ends; remove them: sed -i 's/\\r$//' " + path);
}

TEST_F(ProgramFile, ASimilarProgramOfTheSameDirectoryIsSuggested) {
  write("train.py", "");
  write("notes.txt", "");
  EXPECT_EQ(similar_program(fs::path(folder_.path()) / "trian.py"), fs::path(folder_.path()) / "train.py");
  EXPECT_EQ(similar_program(fs::path(folder_.path()) / "notes.tx"), "")
      << "it is neither executable nor Python";
}

}  // namespace
}  // namespace dlaunch::launcher
