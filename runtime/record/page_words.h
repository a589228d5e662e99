// How words of the worker's page are written and read while its agent, or another thread, reads them.
#pragma once

#include <atomic>
#include <cstdint>

namespace dlaunch::internal {

// In order, so that a reader of one word also sees the seqlock's value that was written before it.
template <class T>
void put(T& word, T value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}
template <class T>
T get(T& word) {
  return std::atomic_ref<T>(word).load(std::memory_order_relaxed);
}
inline std::uint64_t add(std::uint64_t& word, std::uint64_t more) {
  return std::atomic_ref<std::uint64_t>(word).fetch_add(more, std::memory_order_relaxed);
}
inline void raise_to(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t> there(word);
  std::uint64_t before = there.load(std::memory_order_relaxed);
  while (before < value && !there.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

// Claims a record for writing. Fails if another thread has been writing it since the ring's last round, or
// writes it in the next one: then this operation is not recorded.
inline bool claim(std::uint64_t& seqlock, std::uint64_t writing) {
  std::uint64_t before = get(seqlock);
  return before % 2 == 0 && before < writing &&
         std::atomic_ref<std::uint64_t>(seqlock).compare_exchange_strong(
             before, writing, std::memory_order_acq_rel, std::memory_order_relaxed);
}

}  // namespace dlaunch::internal
