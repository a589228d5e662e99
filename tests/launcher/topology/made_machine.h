// A file system of a machine that this one is not: with other devices, other CPUs, other programs.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::launcher {

class MadeMachine {
 public:
  void add(const std::string& path, const std::string& text = "") {
    const std::filesystem::path whole = folder_.path() + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  void add_program(const std::string& path, const std::string& text = "") {
    add(path, text);
    std::filesystem::permissions(folder_.path() + path, std::filesystem::perms::owner_all);
  }
  [[nodiscard]] const std::string& root() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

}  // namespace dlaunch::launcher
