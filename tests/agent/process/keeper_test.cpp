#include "agent/process/keeper.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "agent/platform/reaper.h"
#include "agent/process/scratch_dir.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

std::string describe(const std::string& text, const std::string& part) {
  return text.find(part) == std::string::npos ? text : part;
}

TEST(KeeperStart, AdviceNamesTheLimit) {
  EXPECT_EQ(describe(advice_on_start(EMFILE), "ulimit -n"), "ulimit -n");
  EXPECT_EQ(describe(advice_on_start(E2BIG), "ulimit -s"), "ulimit -s");
  EXPECT_EQ(advice_on_start(ENOENT), "No such file or directory");
  EXPECT_EQ(cannot_start_keeper(ENOMEM).message(), "cannot start the keeper process: Cannot allocate memory");
}

// Without a cgroup the agent's child is the guard, and the keeper is the guard's child.
TEST(KeeperStart, BothEndAndRemoveTheResourcesAfterTheAgentsSocketsClose) {
  const test::TemporaryFolder folder;
  const auto scratch = make_scratch_dir(folder.path());
  ASSERT_TRUE(scratch.ok());
  char name[64] = "keeper_test";
  JobResources resources;
  resources.scratch_dir = *scratch;
  const auto keeper = start_keeper(name, sizeof name, resources);
  ASSERT_TRUE(keeper.ok());
  Frame ready;
  ASSERT_EQ(read(keeper->socket, &ready, sizeof ready), static_cast<ssize_t>(sizeof ready));
  EXPECT_EQ(ready.kind, FrameKind::ready);
  const auto pid = static_cast<pid_t>(ready.number);
  EXPECT_TRUE(birth_of(pid));
  EXPECT_EQ(children_of(keeper->child), std::vector<pid_t>{pid});
  EXPECT_TRUE(std::filesystem::exists(scratch->path));
  close(keeper->socket);
  close(keeper->guards_life);
  EXPECT_EQ(waitpid(keeper->child, nullptr, 0), keeper->child);
  EXPECT_FALSE(birth_of(pid));
  EXPECT_FALSE(std::filesystem::exists(scratch->path));
  close(scratch->fd);
}

TEST(KeeperStart, WithACgroupTheAgentsChildIsTheKeeper) {
  char name[64] = "keeper_test";
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/cgroup";
  std::filesystem::create_directory(path);
  const auto make = [&] { return Result<JobCgroup>(JobCgroup{path, dup(STDIN_FILENO)}); };
  const auto keeper = start_keeper(name, sizeof name, {}, make);
  ASSERT_TRUE(keeper.ok());
  Frame ready;
  ASSERT_EQ(read(keeper->socket, &ready, sizeof ready), static_cast<ssize_t>(sizeof ready));
  EXPECT_EQ(ready.number, keeper->child);
  std::string body(ready.length, ' ');
  EXPECT_EQ(read(keeper->socket, body.data(), body.size()), static_cast<ssize_t>(path.size()));
  EXPECT_EQ(body, path);
  close(keeper->socket);
  close(keeper->guards_life);
  EXPECT_EQ(waitpid(keeper->child, nullptr, 0), keeper->child);
  EXPECT_FALSE(std::filesystem::exists(path)) << "the keeper removes its cgroup";
}

}  // namespace
}  // namespace dlaunch::agent
