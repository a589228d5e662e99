// Runs a part of a test in a process of its own, since it owns descriptors 1 and 2 or starts a keeper.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::test {

inline std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct OwnProcess {
  int code = -1;  // what `part` returned; -1: a signal ended the process
  std::string printed;
};

// What `part` returns, and what it and its children write to descriptors 1 and 2.
inline OwnProcess in_own_process(const std::function<int()>& part) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/printed";
  std::fflush(nullptr);  // what is buffered is this process's
  const pid_t child = fork();
  if (child == 0) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) dup2(file, fd);
    const int code = part();
    std::fflush(nullptr);
    _exit(code);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(path)};
}

}  // namespace dlaunch::test
