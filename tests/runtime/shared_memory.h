// What ranks that are processes of one test can tell each other without the library.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <new>
#include <thread>

namespace dlaunch::test {

// Memory that the ranks of a test share.
template <class T>
class Shared {
 public:
  explicit Shared(std::size_t count)
      : size_(count * sizeof(T)),
        memory_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Shared() { munmap(memory_, size_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  [[nodiscard]] T* data() const { return static_cast<T*>(memory_); }

 private:
  const std::size_t size_;
  void* const memory_;
};

// Where ranks wait for each other other than by the group, whose barrier a rank may be through while another
// one is still in it. Once.
class ProcessBarrier {
 public:
  explicit ProcessBarrier(int ranks) : ranks_(ranks) {}
  void meet() const {
    ++*arrived_.data();
    while (*arrived_.data() < ranks_) std::this_thread::yield();
  }

 private:
  const int ranks_;
  const Shared<std::atomic<int>> arrived_{1};
};

}  // namespace dlaunch::test
