// Descriptors that only this process has. (Those of whole groups: endpoint_test.cpp.)

#include "runtime/sockets/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/runtime/forked_copies.h"

namespace dlaunch::internal {
namespace {

using test::exit_code_of_copy;

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }
Descriptor any() {
  return Descriptor([] { return eventfd(0, EFD_CLOEXEC); });
}

TEST(GlooDescriptor, IsClosedWithItsOwner) {
  int fd = -1;
  {
    const Descriptor descriptor = any();
    ASSERT_TRUE(descriptor.is_open());
    fd = descriptor.get();
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(GlooDescriptor, ThatCannotBeMadeIsNotOpen) {
  const Descriptor none([] {
    errno = EMFILE;
    return -1;
  });
  EXPECT_EQ(errno, EMFILE);
  EXPECT_FALSE(none.is_open());
}

TEST(GlooDescriptor, AMoveLeavesTheSourceWithoutOne) {
  std::optional<Descriptor> source(any());
  const int fd = source->get();
  std::optional<Descriptor> target(std::move(*source));
  EXPECT_FALSE(source->is_open());
  source.reset();
  EXPECT_TRUE(is_open(fd));
  EXPECT_EQ(target->get(), fd);
  target.reset();
  EXPECT_FALSE(is_open(fd));
}

TEST(GlooDescriptor, ACopyOfTheProcessHasNone) {
  const Descriptor kept = any();
  Descriptor source = any();
  const Descriptor moved(std::move(source));
  const int kept_fd = kept.get();
  const int moved_fd = moved.get();
  EXPECT_EQ(exit_code_of_copy([&] {
              if (is_open(kept_fd) || is_open(moved_fd)) return 1;
              return kept.is_open() || moved.is_open() ? 2 : 0;
            }),
            0);
  EXPECT_TRUE(is_open(kept_fd));
  EXPECT_TRUE(is_open(moved_fd));
}

// The number may then be another file's: the copy's destructors must not close it.
TEST(GlooDescriptor, ACopyClosesEachOnce) {
  auto descriptor = std::make_unique<Descriptor>(any());
  const int fd = descriptor->get();
  EXPECT_EQ(exit_code_of_copy([&] {
              if (dup2(STDERR_FILENO, fd) != fd) return 1;
              std::destroy_at(descriptor.get());  // not its memory
              return is_open(fd) ? 0 : 2;
            }),
            0);
  EXPECT_TRUE(is_open(fd));
}

}  // namespace
}  // namespace dlaunch::internal
