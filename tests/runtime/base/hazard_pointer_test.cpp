#include "runtime/base/hazard_pointer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runtime/slowness.h"

namespace dlaunch::internal {
namespace {

// Counts the ones that live.
class Counted {
 public:
  explicit Counted(std::atomic<int>& alive) : alive_(&alive) { ++*alive_; }
  ~Counted() {
    content_ = gone;
    --*alive_;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  [[nodiscard]] bool is_alive() const { return content_ == there; }

 private:
  static constexpr int there = 12345;
  static constexpr int gone = 54321;
  std::atomic<int>* alive_;
  std::atomic<int> content_ = there;
};

using Pointer = HazardPointer<const Counted>;

class HazardPointerTest : public testing::Test {
 protected:
  void set() { pointer_.set(std::make_shared<const Counted>(alive_)); }

  std::atomic<int> alive_ = 0;
  Pointer pointer_;
};

TEST_F(HazardPointerTest, HasNoObjectAtFirst) {
  EXPECT_EQ(Pointer::Use(pointer_).get(), nullptr);
  EXPECT_EQ(pointer_.share(), nullptr);
}

TEST_F(HazardPointerTest, SetDestroysTheObjectBeforeThatNobodyUses) {
  set();
  { const Pointer::Use use(pointer_); }
  set();
  EXPECT_EQ(alive_, 1);
  pointer_.set(nullptr);
  EXPECT_EQ(alive_, 0);
}

TEST_F(HazardPointerTest, ObjectLivesUntilItsUseEnds) {
  set();
  {
    const Pointer::Use use(pointer_);
    set();
    EXPECT_EQ(alive_, 2);
    EXPECT_TRUE(use->is_alive());
    EXPECT_NE(Pointer::Use(pointer_).get(), use.get());
  }
  EXPECT_EQ(alive_, 1);
}

TEST_F(HazardPointerTest, MoreUsesThanEntriesAreUsesToo) {
  set();
  {
    std::deque<Pointer::Use> uses;
    for (std::size_t i = 0; i < HazardRecord::entries_at_once + 2; ++i) uses.emplace_back(pointer_);
    pointer_.set(nullptr);
    while (!uses.empty()) {
      EXPECT_EQ(alive_, 1);
      EXPECT_TRUE(uses.back()->is_alive());
      uses.pop_back();
    }
  }
  EXPECT_EQ(alive_, 0);
}

TEST_F(HazardPointerTest, LastOfSeveralThreadsDestroysIt) {
  set();
  constexpr int users = 3;
  std::vector<std::promise<void>> ends(users);
  std::vector<std::promise<void>> used(users);
  std::vector<std::thread> threads;
  for (int i = 0; i < users; ++i) {
    threads.emplace_back([this, &begun = used[static_cast<std::size_t>(i)],
                          end = ends[static_cast<std::size_t>(i)].get_future()] {
      const Pointer::Use use(pointer_);
      begun.set_value();
      end.wait();
      EXPECT_TRUE(use->is_alive());
    });
  }
  for (std::promise<void>& one : used) one.get_future().wait();
  pointer_.set(nullptr);
  for (std::size_t i = 0; i < threads.size(); ++i) {
    EXPECT_EQ(alive_, 1);
    ends[i].set_value();
    threads[i].join();
  }
  EXPECT_EQ(alive_, 0);
}

// Whose destructor runs after the record of the thread has gone.
struct UsesAtThreadEnd {
  ~UsesAtThreadEnd() {
    if (pointer != nullptr) found = Pointer::Use(*pointer)->is_alive();
  }
  Pointer* pointer = nullptr;
  static std::atomic<bool> found;
};
std::atomic<bool> UsesAtThreadEnd::found = false;

TEST_F(HazardPointerTest, ThreadThatEndsMayUseIt) {
  set();
  std::thread([this] {
    static thread_local UsesAtThreadEnd at_end;
    at_end.pointer = &pointer_;
    const Pointer::Use use(pointer_);
  }).join();
  EXPECT_TRUE(UsesAtThreadEnd::found);
}

TEST_F(HazardPointerTest, ForkedCopyUsesAndReplacesItsOwn) {
  set();
  const Pointer::Use use(pointer_);
  const pid_t child = fork();
  if (child == 0) {
    set();
    const bool is_right = alive_ == 2 && use->is_alive() && Pointer::Use(pointer_)->is_alive();
    _exit(is_right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(alive_, 1);
}

TEST_F(HazardPointerTest, OwnerTakesItWithoutDestroyingIt) {
  set();
  const std::shared_ptr<const Counted> taken = pointer_.take_alone();
  EXPECT_TRUE(taken->is_alive());
  EXPECT_EQ(Pointer::Use(pointer_).get(), nullptr);
}

// Compiled with -O2, 80 of a million rounds go wrong if the replacing side makes no fence; as tests are
// compiled, a use is too slow for that.
TEST_F(HazardPointerTest, NoThreadSeesADestroyedObject) {
  set();
  std::atomic<bool> ending = false;
  long wrong = 0;
  std::thread user([&] {
    constexpr int looks = 5;
    while (!ending) {
      const Pointer::Use use(pointer_);
      for (int look = 0; look < looks; ++look) wrong += use->is_alive() ? 0 : 1;
    }
  });
  const int rounds = 30'000 / test::slowness;
  for (int i = 0; i < rounds; ++i) set();
  ending = true;
  user.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(alive_, 1);
}

}  // namespace
}  // namespace dlaunch::internal
