#include "store/base/small_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::store {
namespace {

class SmallFileTest : public testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  test::TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/file";
};

TEST_F(SmallFileTest, IsReadUpToTheLimit) {
  write(std::string(5000, 'x'));  // more than one piece
  const auto whole = read_plain_file(path_, 5000);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->text, std::string(5000, 'x'));
  EXPECT_FALSE(whole->truncated);
  const auto part = read_plain_file(path_, 4999);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->text.size(), 4999U);
  EXPECT_TRUE(part->truncated);
  EXPECT_EQ(read_plain_file(path_, 0)->text, "");
}

TEST_F(SmallFileTest, HasTheTimeOfItsLastChange) {
  write("x");
  const std::array<timespec, 2> times{
      {{1, 0}, {1'700'000'000, 123'456'000}}};  // of the last read, and change
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times.data(), 0), 0);
  EXPECT_EQ(read_plain_file(path_, 10)->written_ns, 1'700'000'000'123'456'000);
}

TEST_F(SmallFileTest, OnlyAPlainFileIsRead) {
  EXPECT_FALSE(read_plain_file(path_, 10)) << "there is none";
  EXPECT_FALSE(read_plain_file(folder_.path(), 10));
  write("x");
  std::filesystem::create_symlink(path_, folder_.path() + "/link");
  EXPECT_FALSE(read_plain_file(folder_.path() + "/link", 10));
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(read_plain_file(fifo, 10)) << "and a writer is not waited for";
  EXPECT_FALSE(read_plain_file("/dev/zero", 10));
}

TEST_F(SmallFileTest, AFileOfTheKernelHasNoSizeInAdvance) {
  const auto status = read_plain_file("/proc/self/status", 1 << 16);
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->text.starts_with("Name:"));
}

}  // namespace
}  // namespace dlaunch::store
