#include "runtime/shared_memory/direct_read.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

namespace dlaunch::internal {
namespace {

std::uint64_t address_of(const void* memory) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory));
}

// A child that has other bytes than this process at the same address, until it is killed.
class DirectRead : public testing::Test {
 protected:
  static constexpr std::size_t size = std::size_t{9} << 20U;  // more than one piece

  void SetUp() override {
    const std::byte here{};
    if (!is_readable_directly(&here, 1))
      GTEST_SKIP() << "the kernel allows no process_vm_readv: errno " << errno;
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child_ = fork();
    if (child_ == 0) {
      std::memset(bytes_.data(), 7, size);
      token_ = 1234567;
      (void)!write(ready[1], "1", 1);
      for (;;) pause();
    }
    close(ready[1]);
    char one = 0;
    ASSERT_EQ(read(ready[0], &one, 1), 1);
    close(ready[0]);
    there_ = ProcessMemory::own(token_);
    there_.process = static_cast<std::uint64_t>(child_);
    there_.token = 1234567;
    std::byte one_byte{};
    if (!read_directly(there_, address_of(bytes_.data()), &one_byte, 1))
      GTEST_SKIP() << "the kernel forbids to read the memory of a child";
  }
  void TearDown() override { end_child(); }

  void end_child() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }

  pid_t child_ = 0;
  std::uint64_t token_ = 1;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(size, std::byte{1});
  std::vector<std::byte> copy_ = std::vector<std::byte>(size);
  ProcessMemory there_;
};

TEST_F(DirectRead, CopiesTheMemoryOfAnotherProcess) {
  ASSERT_TRUE(read_directly(there_, address_of(bytes_.data()), copy_.data(), size));
  EXPECT_EQ(copy_, std::vector<std::byte>(size, std::byte{7}));
}

TEST_F(DirectRead, AnotherProcessOfTheSameNumberIsRecognised) {
  there_.token = 1234568;
  EXPECT_FALSE(read_directly(there_, address_of(bytes_.data()), copy_.data(), size));
}

TEST_F(DirectRead, MemoryThatIsNotThereIsReported) {
  EXPECT_FALSE(read_directly(there_, 8, copy_.data(), size));
  EXPECT_FALSE(read_directly(there_, ~std::uint64_t{0} - 100, copy_.data(), size));
}

TEST_F(DirectRead, AnEndedProcessIsReported) {
  end_child();
  EXPECT_FALSE(read_directly(there_, address_of(bytes_.data()), copy_.data(), size));
}

TEST_F(DirectRead, WhetherMemoryCanBeReadIsSeenAtBothEnds) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const area = mmap(nullptr, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  auto* const begin = static_cast<std::byte*>(area);
  ASSERT_EQ(mprotect(begin + page, page, PROT_READ | PROT_WRITE), 0);
  EXPECT_TRUE(is_readable_directly(begin + page, page));
  EXPECT_FALSE(is_readable_directly(begin + page, page + 1));
  EXPECT_FALSE(is_readable_directly(begin + page - 1, page));
  EXPECT_TRUE(is_readable_directly(begin, 0));
  munmap(area, 3 * page);
}

}  // namespace
}  // namespace dlaunch::internal
