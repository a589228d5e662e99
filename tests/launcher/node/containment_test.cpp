// Each test runs in a process of its own, which has no other children.
#include "launcher/node/containment.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "store/base/log.h"
#include "tests/launcher/own_process.h"
#include "tests/runtime/api/variable.h"

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

class ContainmentTest : public testing::Test {
 protected:
  // `part` prints what it finds wrong.
  void run(const std::function<void(Result<Containment>)>& part) const {
    const auto ran = test::in_own_process([&] {
      setenv("TMPDIR", temporary_.c_str(), 1);
      for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
      std::array<char, 64> name{"containment_test"};
      part(Containment::begin(name.data(), name.size()));  // it ends with the call
      EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
      return testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(ran.code, 0) << ran.printed;
    EXPECT_EQ(ran.printed, "");
  }

  test::TemporaryFolder folder_;
  std::string temporary_ = folder_.path();
  std::map<std::string, std::string> variables_;
};

TEST_F(ContainmentTest, ItsDirectoryIsInTmpdirWhileItLives) {
  run([this](Result<Containment> made) {
    ASSERT_TRUE(made.ok());
    const std::string scratch = made->scratch_dir();
    EXPECT_EQ(fs::path(scratch).parent_path(), temporary_);
    EXPECT_TRUE(fs::is_directory(scratch));
    const std::string pages = made->pages_dir();
    EXPECT_TRUE(fs::is_directory(pages));
    EXPECT_TRUE(pages == scratch || pages.starts_with("/dev/shm/"))
        << pages << ": a disk could delay workers";
    EXPECT_FALSE(made->resources().timer_fifo.exists());
    made->log_limitations();
    { const Containment moved(std::move(*made)); }
    EXPECT_FALSE(fs::exists(scratch)) << "the one that was moved here has ended it";
    EXPECT_FALSE(fs::exists(pages));
  });
  EXPECT_TRUE(fs::is_empty(temporary_));
}

TEST_F(ContainmentTest, ATmpdirThatCannotBeUsedIsAnError) {
  temporary_ += "/missing";
  run([this](const Result<Containment>& made) {
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message().find(temporary_), std::string::npos) << made.error().message();
  });
}

TEST_F(ContainmentTest, TorchrunsTimersGetAFifo) {
  variables_["TORCHELASTIC_ENABLE_FILE_TIMER"] = "1";
  run([](Result<Containment> made) {
    ASSERT_TRUE(made.ok());
    const std::string fifo = made->resources().timer_fifo.path;
    EXPECT_TRUE(fs::is_fifo(fifo));
    EXPECT_EQ(fs::path(fifo).parent_path(), made->scratch_dir());
  });
  EXPECT_TRUE(fs::is_empty(temporary_));
}

TEST_F(ContainmentTest, AFifoThatCannotBeMadeLeavesNothing) {
  variables_ = {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"},
                {"TORCHELASTIC_TIMER_FILE", temporary_ + "/missing/fifo"}};
  run([this](const Result<Containment>& made) {
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message().find(temporary_ + "/missing/fifo"), std::string::npos)
        << made.error().message();
  });
  EXPECT_TRUE(fs::is_empty(temporary_));
}

TEST_F(ContainmentTest, TheKeeperIsThenItsTakers) {
  run([](Result<Containment> made) {
    ASSERT_TRUE(made.ok());
    const std::string scratch = made->scratch_dir();
    agent::Keeper keeper;
    {
      Containment one(std::move(*made));
      keeper = one.take_keeper();
    }
    EXPECT_TRUE(fs::is_directory(scratch));
    EXPECT_EQ(waitpid(keeper.child, nullptr, WNOHANG), 0) << "it has ended";
    close(keeper.socket);
    close(keeper.guards_life);
    EXPECT_EQ(waitpid(keeper.child, nullptr, 0), keeper.child);
    agent::end_and_remove_all(keeper.resources);
    EXPECT_FALSE(fs::exists(scratch));
  });
}

TEST(TemporaryFolderOfTheMachine, IsTmpdirOrElseTmp) {
  const test::Variable variable("TMPDIR", "/some/where");
  EXPECT_EQ(temporary_folder(), "/some/where");
  variable.set("");
  EXPECT_EQ(temporary_folder(), "/tmp");
  variable.set(nullptr);
  EXPECT_EQ(temporary_folder(), "/tmp");
}

}  // namespace
}  // namespace dlaunch::launcher
