#include "agent/process/job_resources.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "agent/platform/reaper.h"
#include "agent/process/scratch_dir.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

// In a process of its own, because it ends all descendants of its caller.
int end_in_child(const JobResources& resources) {
  const pid_t child = fork();
  if (child == 0) {
    become_subreaper();
    if (fork() == 0) {
      setsid();
      if (fork() > 0) _exit(0);  // leaves an orphan
      while (true) pause();
    }
    const bool ended = end_and_remove_all(resources);
    _exit(ended && children_of(getpid()).empty() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(JobResources, EndsDescendantsAndRemovesTheDirectories) {
  const test::TemporaryFolder folder;
  const auto scratch = make_scratch_dir(folder.path());
  const auto pages = make_scratch_dir(folder.path());
  ASSERT_TRUE(scratch.ok() && pages.ok());
  JobResources resources;
  resources.scratch_dir = *scratch;
  resources.pages_dir = *pages;
  EXPECT_EQ(end_in_child(resources), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  remove_all(resources);
  close(scratch->fd);
  close(pages->fd);
}

}  // namespace
}  // namespace dlaunch::agent
