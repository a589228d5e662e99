// The file of a FileStore: PyTorch's bytes, damaged files, locks, and the end of the file's life.
#include "store/client/file_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "store/client/steady_time.h"
#include "tests/store/client/other_process.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using Keys = std::vector<std::string>;

class FileStoreTest : public testing::Test {
 protected:
  FileStoreOptions options(std::int64_t world_size = -1, FileStoreUsers users = FileStoreUsers::counted) {
    FileStoreOptions options;
    options.path = path;
    options.timeout = 60s;
    options.world_size = world_size;
    options.users = users;
    return options;
  }
  FileStoreOptions as_1_13(std::int64_t world_size = -1) {
    return options(world_size, FileStoreUsers::not_counted);
  }
  std::string content() const {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
  bool exists() const { return std::filesystem::exists(path); }
  // The error of a call that must fail.
  static std::string error_of(const std::function<void()>& call, ErrorKind kind = ErrorKind::io) {
    try {
      call();
      return "none";
    } catch (const StoreError& error) {
      EXPECT_EQ(error.error().kind, kind) << error.what();
      return error.what();
    }
  }
  std::string said(const std::string& what) const { return "file store " + path + ": " + what; }

  test::TemporaryFolder folder;
  std::string path = folder.path() + "/store";
};

// Written by PyTorch 1.13: set a, add 5 to n, delete a, compare_set c, destroyed.
const std::string by_1_13 =
    "\2\0\0\0/a\1\0\0\0001"
    "\2\0\0\0/n\1\0\0\0005"
    "\3\0\0\0-/a\0\0\0\0"
    "\2\0\0\0/c\1\0\0\0y"
    "\10\0\0\0cleanup/\1\0\0\0001"s;

TEST_F(FileStoreTest, WritesTheBytesThatPyTorchWrites) {
  {
    FileStore store(as_1_13());
    EXPECT_FALSE(exists());
    store.set("a", "1");
    store.add("n", 5);
    store.delete_key("a");
    store.compare_set("c", "x", "y");
    store.compare_set("c", "", "y");
  }
  EXPECT_EQ(content(), by_1_13);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U & ~0644U, 0U);
}

TEST_F(FileStoreTest, CountsItselfAsPyTorch2Does) {
  const std::string opened = "\11\0\0\0refcount/\1\0\0\0001"s;
  {
    const FileStore store(options());
    EXPECT_EQ(content(), opened);
  }
  EXPECT_EQ(content(), opened + "\10\0\0\0cleanup/\1\0\0\0001\11\0\0\0refcount/\1\0\0\0000"s);
}

TEST_F(FileStoreTest, ReadsTheBytesThatPyTorchWrote) {
  write(by_1_13);
  FileStore store(as_1_13());
  EXPECT_EQ(store.list_keys(), (Keys{"c", "n"}));
  EXPECT_EQ(store.get("n"), "5");
  EXPECT_EQ(store.add("n", 1), 6);
  EXPECT_EQ(store.num_keys(), 3);  // with "cleanup/"
  EXPECT_FALSE(store.delete_key("a"));
}

TEST_F(FileStoreTest, TheLastOfAllRemovesTheFile) {
  for (const bool old : {false, true}) {
    const auto make = [&] { return std::make_unique<FileStore>(old ? as_1_13(2) : options(2)); };
    auto first = make();
    auto second = make();
    first->set("k", "v");
    first.reset();
    EXPECT_TRUE(exists());
    second.reset();
    EXPECT_FALSE(exists());
  }
}

TEST_F(FileStoreTest, AFileInUseIsKept) {
  auto one_more = std::make_unique<FileStore>(options(2));
  FileStore(options(2)).set("k", "v");
  FileStore(options(2)).set("k", "v");
  EXPECT_TRUE(exists());
  EXPECT_EQ(one_more->get("k"), "v");
  one_more.reset();
  EXPECT_FALSE(exists());
}

TEST_F(FileStoreTest, WithoutAWorldSizeTheFileStays) {
  FileStore(options()).set("k", "v");
  EXPECT_EQ(FileStore(options()).get("k"), "v");
  EXPECT_TRUE(exists());
}

TEST_F(FileStoreTest, ErrorNamesTheOffsetOfATruncatedRecord) {
  const std::string whole = "\2\0\0\0/a\1\0\0\0001"s;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    write(whole + whole.substr(0, size));
    FileStore store(as_1_13());
    const std::string wanted = said("the record at byte 11 is cut off: its writer must have died");
    EXPECT_EQ(error_of([&] { store.get("a"); }), wanted) << size;
    EXPECT_EQ(error_of([&] { store.set("b", "on top of it"); }), wanted) << size;
    EXPECT_EQ(content().size(), whole.size() + size);
  }
}

TEST_F(FileStoreTest, DoesNotBelieveLengths) {
  write("\xff\xff\xff\xff/a"s);
  EXPECT_EQ(error_of([&] { FileStore(as_1_13()).num_keys(); }),
            said("the record at byte 0 is invalid: its key is longer than the limit"));
  write("\2\0\0\0/a\xff\xff\xff\xff"s);
  EXPECT_EQ(error_of([&] { FileStore(as_1_13()).num_keys(); }),
            said("the record at byte 0 is invalid: its value is longer than the limit"));
  write("\2\0\0\0/a\0\0\0\020"s);  // announces 256 MiB, of which no byte follows
  EXPECT_EQ(error_of([&] { FileStore(as_1_13()).num_keys(); }),
            said("the record at byte 0 is cut off: its writer must have died"));
  write("");
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 40), 0);  // a hole
  EXPECT_EQ(error_of([&] { FileStore(as_1_13()).num_keys(); }),
            said("the record at byte 0 is invalid: its key is empty"));
}

TEST_F(FileStoreTest, ReportsThatItsFileWasRemoved) {
  FileStore store(options());
  store.set("k", "v");
  ASSERT_EQ(unlink(path.c_str()), 0);
  const std::string wanted = said("it was removed while in use");
  EXPECT_EQ(error_of([&] { store.get("k"); }), wanted);
  EXPECT_EQ(error_of([&] { store.set("k", "w"); }), wanted);
  EXPECT_FALSE(exists());
  FileStore(options()).set("k", "another job's");
  EXPECT_EQ(error_of([&] { store.get("k"); }), wanted);
}

TEST_F(FileStoreTest, ReportsThatItsFileWasReplaced) {
  FileStore store(options());
  ASSERT_EQ(unlink(path.c_str()), 0);
  FileStore another(options());
  another.set("k", "another job's");
  EXPECT_EQ(error_of([&] { store.check(Keys{"k"}); }), said("it was replaced while in use"));
}

TEST_F(FileStoreTest, ReportsThatItsFileWasTruncated) {
  FileStore store(options());
  ASSERT_EQ(truncate(path.c_str(), 3), 0);
  EXPECT_EQ(error_of([&] { store.num_keys(); }), said("it became shorter, from 18 bytes to 3"));
}

TEST_F(FileStoreTest, AWaitEndsWhenTheFileIsRemoved) {
  FileStore store(options());
  std::thread remover([&] { unlink(path.c_str()); });
  EXPECT_EQ(error_of([&] { store.get("never"); }), said("it was removed while in use"));
  remover.join();
}

TEST_F(FileStoreTest, NoFileYetIsAnEmptyStore) {
  FileStore store(as_1_13());
  EXPECT_EQ(store.num_keys(), 0);
  EXPECT_FALSE(store.check(Keys{"k"}));
  EXPECT_TRUE(store.list_keys().empty());
  EXPECT_NE(error_of([&] { store.wait(Keys{"k"}, 5ms); }, ErrorKind::timeout), "none");
  EXPECT_FALSE(exists());
  std::thread setter([&] { FileStore(as_1_13()).set("k", "v"); });
  EXPECT_EQ(store.get("k"), "v");
  setter.join();
}

TEST_F(FileStoreTest, AFolderMayComeLate) {
  path = folder.path() + "/late/store";
  std::thread maker([&] { mkdir((folder.path() + "/late").c_str(), 0755); });
  FileStore store(options());
  store.set("k", "v");
  EXPECT_TRUE(exists());
  maker.join();
}

// Within the store's timeout, although locks are waited for longer.
TEST_F(FileStoreTest, AFolderThatDoesNotComeIsSaid) {
  path = folder.path() + "/never/store";
  FileStoreOptions impatient = options();
  impatient.timeout = 5ms;
  const TimePoint before = steady_now();
  EXPECT_EQ(error_of([&] { const FileStore store(impatient); }), said("No such file or directory"));
  EXPECT_LT(steady_now() - before, 5s);
}

TEST_F(FileStoreTest, ReportsWhyAFileIsInvalid) {
  path = folder.path();
  EXPECT_EQ(error_of([&] { const FileStore store(options()); }), said("Is a directory"));
  path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { FileStore(as_1_13()).num_keys(); }), said("not a regular file"));
}

TEST_F(FileStoreTest, RefusesWhatIsTooLong) {
  auto small = options();
  small.limits.key_bytes = 10;
  small.limits.value_bytes = 10;
  FileStore store(small);
  const std::string before = content();
  EXPECT_EQ(error_of([&] { store.set("a long key", ""); }, ErrorKind::limit),
            said("cannot store key 'a long key': longer than the limit"));
  EXPECT_NE(error_of(
                [&] {
                  store.multi_set(Keys{"a", "b"}, Keys{"1", "a long value"});
                },
                ErrorKind::limit),
            "none");
  EXPECT_EQ(content(), before);
  store.set("9 letters", "10 letters");
}

// A disk that is full in the middle of a record, simulated by a limit on the file's size.
TEST_F(FileStoreTest, AFullDiskLeavesNoTornRecord) {
  const test::OtherProcess other([&](const std::string&) {
    FileStore store(options());
    store.set("k", "v");
    const std::string before = content();
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{before.size() + 10, before.size() + 10};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const std::string error = error_of([&] { store.set("large", std::string(100, 'x')); });
    return error == said("cannot write: File too large") && content() == before && store.get("k") == "v" &&
           !store.check(Keys{"large"});
  });
}

TEST_F(FileStoreTest, TwoProcessesCountTogether) {
  constexpr int each = 200;
  {
    test::OtherProcess other([&](const std::string&) {
      FileStore store(options());
      for (int i = 0; i < each; ++i) store.add("n", 1);
      for (int i = 0; i < 10; ++i)
        store.set("pong" + std::to_string(i), store.get("ping" + std::to_string(i)));
      return true;
    });
    other.tell("go");
    FileStore store(options());
    for (int i = 0; i < each; ++i) store.add("n", 1);
    for (int i = 0; i < 10; ++i) {
      store.set("ping" + std::to_string(i), "v");
      EXPECT_EQ(store.get("pong" + std::to_string(i)), "v");
    }
  }
  EXPECT_EQ(FileStore(options()).add("n", 0), 2 * each);
}

TEST_F(FileStoreTest, WriterKilledBetweenRecordsLeavesAValidFile) {
  const int lock_holder = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(flock(lock_holder, LOCK_EX), 0);
  std::thread releaser([&] { close(lock_holder); });  // as the kernel does at the end of a process
  FileStore store(options());
  store.set("k", "v");
  releaser.join();
  EXPECT_EQ(store.get("k"), "v");
}

}  // namespace
}  // namespace dlaunch::store
