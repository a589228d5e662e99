#include "runtime/shared_memory/process_end.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "runtime/shared_memory/direct_read.h"

namespace dlaunch::internal {
namespace {

// A child that says when it is ready.
class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    int ready[2];
    if (pipe(ready) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      close(ready[0]);
      ready_pipe = ready[1];
      body();
      _exit(0);
    }
    close(ready[1]);
    char one = 0;
    is_ready_ = read(ready[0], &one, 1) == 1;
    close(ready[0]);
  }
  ~Child() { reap(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  static void report_ready() { (void)!write(ready_pipe, "1", 1); }
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  [[nodiscard]] std::uint64_t process() const { return static_cast<std::uint64_t>(pid_); }
  // It is a zombie then.
  void kill_it() const {
    kill(pid_, SIGKILL);
    siginfo_t about{};
    waitid(P_PID, static_cast<id_t>(pid_), &about, WEXITED | WNOWAIT);
  }
  void reap() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  static inline int ready_pipe = -1;
  pid_t pid_ = 0;
  bool is_ready_ = false;
};

void wait_for_ever() {
  Child::report_ready();
  for (;;) pause();
}

bool seems_ended_here(std::uint64_t process) { return seems_ended(process, own_pid_namespace()); }

TEST(ProcessEnds, NotOfOneThatRuns) {
  EXPECT_NE(own_pid_namespace(), 0U);
  EXPECT_FALSE(seems_ended_here(static_cast<std::uint64_t>(getpid())));
  EXPECT_FALSE(seems_ended_here(0));
  EXPECT_FALSE(seems_ended_here(~std::uint64_t{0}));
  const Child child(wait_for_ever);
  ASSERT_TRUE(child.is_ready());
  EXPECT_FALSE(seems_ended_here(child.process()));
}

TEST(ProcessEnds, OfOneThatWasKilledAndOfOneThatIsGone) {
  Child child(wait_for_ever);
  ASSERT_TRUE(child.is_ready());
  const std::uint64_t process = child.process();
  child.kill_it();
  EXPECT_TRUE(seems_ended_here(process));
  child.reap();
  EXPECT_TRUE(seems_ended_here(process));
}

// Its first thread has no memory any more, as that of a process that has ended.
TEST(ProcessEnds, NotOfOneWhoseFirstThreadHasEnded) {
  const Child child([] {
    std::thread([] {
      const std::byte byte{};
      while (is_readable_directly(&byte, 1)) std::this_thread::yield();  // by the first thread's number
      wait_for_ever();
    }).detach();
    syscall(SYS_exit, 0);  // of this thread
  });
  ASSERT_TRUE(child.is_ready());
  EXPECT_FALSE(seems_ended_here(child.process()));
  child.kill_it();
  EXPECT_TRUE(seems_ended_here(child.process()));
}

// Its number means another process there.
TEST(ProcessEnds, IsNotKnownOfOneInAnotherPidNamespace) {
  const Child child(wait_for_ever);
  ASSERT_TRUE(child.is_ready());
  child.kill_it();
  EXPECT_FALSE(seems_ended(child.process(), own_pid_namespace() + 1));
  EXPECT_FALSE(seems_ended(child.process(), 0));
}

}  // namespace
}  // namespace dlaunch::internal
