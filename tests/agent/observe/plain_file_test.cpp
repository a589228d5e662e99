#include "agent/observe/plain_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

class PlainFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void SetUp() override { std::ofstream(path("file")) << "0123456789"; }

  test::TemporaryFolder folder_;
};

TEST_F(PlainFileTest, ReadsWhatIsAsked) {
  const PlainFile file(path("file"));
  EXPECT_EQ(file.read(0, 4), "0123");
  EXPECT_EQ(file.read(7, 2), "78");
}

TEST_F(PlainFileTest, ReturnsLessAtTheEnd) {
  const PlainFile file(path("file"));
  EXPECT_EQ(file.read(8, 100), "89");
  EXPECT_EQ(file.read(10, 1), "");
  EXPECT_EQ(file.read(1000, 1), "");
}

TEST_F(PlainFileTest, AMissingFileIsEmpty) { EXPECT_EQ(PlainFile(path("none")).read(0, 10), ""); }

// Nor does it wait for a writer.
TEST_F(PlainFileTest, AnotherKindOfFileIsEmpty) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(PlainFile(path("fifo")).read(0, 10), "");
  EXPECT_EQ(PlainFile(folder_.path()).read(0, 10), "");
}

TEST_F(PlainFileTest, ALinkIsFollowedUnlessTheFlagForbidsIt) {
  ASSERT_EQ(symlink(path("file").c_str(), path("link").c_str()), 0);
  EXPECT_EQ(PlainFile(path("link")).read(0, 2), "01");
  EXPECT_EQ(PlainFile(path("link"), O_NOFOLLOW).read(0, 2), "");
}

}  // namespace
}  // namespace dlaunch::agent
