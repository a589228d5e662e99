// Pinned memory of the host, used again: to pin memory takes longer than to copy through it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace dlaunch::internal {

// Any thread. Lives as long as one of its pieces.
class PinnedMemory : public std::enable_shared_from_this<PinnedMemory> {
 public:
  // Most bytes that are kept for the next call, and that calls take in advance.
  static constexpr std::size_t most_kept = std::size_t{64} << 20U;

  struct Source {
    void* (*allocate)(std::size_t bytes) noexcept;  // null: there is none
    void (*release)(void* memory) noexcept;
  };
  explicit PinnedMemory(Source source) : source_(source) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // The one of all groups of this process; it is freed when no group has it any more.
  static std::shared_ptr<PinnedMemory> of_process(Source source);

  // At least so many bytes, aligned for every dtype; null if there are none to take. Throws DistBackendError
  // if there is no memory.
  std::shared_ptr<std::byte> take(std::size_t bytes);
  // So much is in use that a call whose turn has not come should wait.
  [[nodiscard]] bool is_full();

 private:
  void put(std::byte* memory, std::size_t size);

  const Source source_;
  std::mutex mutex_;
  // protected by mutex_
  std::multimap<std::size_t, std::byte*> unused_;  // by size
  std::size_t kept_ = 0;                           // bytes in unused_
  std::size_t in_use_ = 0;                         // bytes
};

}  // namespace dlaunch::internal
