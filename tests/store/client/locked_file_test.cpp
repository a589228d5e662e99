#include "store/client/locked_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "store/client/steady_time.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;

class LockedFileTest : public testing::Test {
 protected:
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }

  test::TemporaryFolder folder;
  std::string path = folder.path() + "/store";
};

TEST_F(LockedFileTest, ALockHasADeadline) {
  const auto soon = [] { return deadline_after(steady_now(), 5ms); };
  auto reader = LockedFile::open(path, LockedFile::Access::create, soon());
  ASSERT_TRUE(reader);
  const auto refused = LockedFile::open(path, LockedFile::Access::read, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::timeout);
  EXPECT_EQ(refused.error().why, "other processes kept the file locked");
}

TEST_F(LockedFileTest, ReadersShareTheLock) {
  write("x");
  const TimePoint deadline = deadline_after(steady_now(), 60s);
  auto first = LockedFile::open(path, LockedFile::Access::read, deadline);
  auto second = LockedFile::open(path, LockedFile::Access::read, deadline);
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
  EXPECT_FALSE(LockedFile::open(path, LockedFile::Access::write, deadline_after(steady_now(), 5ms)));
}

TEST_F(LockedFileTest, AFileReplacedWhileItsLockIsWaitedForIsNotTaken) {
  write("old");
  const int old = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(old, LOCK_EX), 0);
  std::thread replacer([&] {
    std::ofstream(path + ".new") << "newer";
    std::filesystem::rename(path + ".new", path);
    close(old);
  });
  auto file = LockedFile::open(path, LockedFile::Access::create, deadline_after(steady_now(), 60s));
  ASSERT_TRUE(file);
  replacer.join();
  // In either order: if the old file was locked at all, then before it was replaced.
  EXPECT_EQ(file->size(), 5U);
}

TEST_F(LockedFileTest, WithoutACreatorAMissingFileIsSaidAtOnce) {
  const TimePoint deadline = deadline_after(steady_now(), 60s);
  const auto missing = LockedFile::open(path, LockedFile::Access::write, deadline);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
}

TEST_F(LockedFileTest, IsReadAndAppendedTo) {
  const TimePoint deadline = deadline_after(steady_now(), 60s);
  {
    auto file = LockedFile::open(path, LockedFile::Access::create, deadline);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->size(), 0U);
    EXPECT_TRUE(file->append(as_byte_span("abc")));
    EXPECT_TRUE(file->append(as_byte_span("de")));
    EXPECT_EQ(file->size(), 5U);
    std::string part(2, ' ');
    EXPECT_TRUE(file->read(1, part.data(), part.size()));
    EXPECT_EQ(part, "bc");
  }
  struct stat about {};
  ASSERT_EQ(stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0111U, 0U);
  const auto again = LockedFile::open(path, LockedFile::Access::write, deadline);
  ASSERT_TRUE(again) << "the lock was released";
  EXPECT_EQ(again->size(), 5U);
}

TEST_F(LockedFileTest, AFileThatShrinksWhileItIsReadIsAnError) {
  write("abc");
  auto file = LockedFile::open(path, LockedFile::Access::read, deadline_after(steady_now(), 60s));
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, 1);
  std::string all(3, ' ');
  const auto read = file->read(0, all.data(), all.size());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().why, "it became shorter while it was read");
}

TEST_F(LockedFileTest, OnlyARegularFileIsTaken) {
  const TimePoint deadline = deadline_after(steady_now(), 60s);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto fifo = LockedFile::open(path, LockedFile::Access::read, deadline);
  ASSERT_FALSE(fifo) << "and it does not wait for a writer";
  EXPECT_EQ(fifo.error().why, "not a regular file");
  EXPECT_FALSE(LockedFile::open(folder.path(), LockedFile::Access::read, deadline));
}

TEST_F(LockedFileTest, ItsIdentityOutlivesItsName) {
  const TimePoint deadline = deadline_after(steady_now(), 60s);
  const auto open_now = [&] { return LockedFile::open(path, LockedFile::Access::create, deadline); };
  FileIdentity first;
  EXPECT_FALSE(first);
  {
    const auto file = open_now();
    ASSERT_TRUE(file);
    EXPECT_FALSE(file->is(first)) << "of no file";
    first = file->identity();
    EXPECT_TRUE(file->is(first));
  }
  EXPECT_TRUE(open_now()->is(first));
  std::filesystem::remove(path);
  EXPECT_FALSE(open_now()->is(first)) << "a file of the same name is another";
}

}  // namespace
}  // namespace dlaunch::store
