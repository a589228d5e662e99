// A pointer to an object that any thread may use while another one takes it away: the object is destroyed
// when its last user is done, as with std::atomic<std::shared_ptr>, but a use costs two plain stores and no
// lock.
//
// Hazard pointers (M. M. Michael, "Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects", 2004): a
// thread writes into an entry of its own which object it uses, and the thread that takes an object away
// reads all entries. The fence that both sides need is made by the second one for all threads
// (membarrier(2)), since it comes rarely; where the kernel does not offer that, each side makes its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace dlaunch::internal {

// The entries of one thread. Records are never freed: another thread takes that of a thread that has ended.
class alignas(64) HazardRecord {  // a cache line, which no other thread writes
 public:
  static constexpr std::size_t entries_at_once = 4;

  // The calling thread's record; null: the thread ends, and has none any more.
  static HazardRecord* own() { return of_thread != nullptr ? of_thread : take(); }

  // For the calling thread's own record only. The entries are a stack.
  [[nodiscard]] bool has_entry() const { return used_ < entries_at_once; }
  std::atomic<const void*>& push() { return entries_[used_++]; }
  void pop() {
    entries_[--used_].store(nullptr, std::memory_order_release);
    fence();
    if (left_to_it_.load(std::memory_order_relaxed) != nullptr) retire_left();
  }
  // Between the store of an entry, or of null, and the load that follows.
  static void fence() {
    if (fences_for_all) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      full_fence();
    }
  }

  // Destroys the object, or leaves it to a thread that uses it. `used_as`: what entries contain for it.
  // REQUIRES: no thread can begin to use it.
  static void retire(std::shared_ptr<const void> object, const void* used_as) noexcept;

 private:
  struct Left {
    std::shared_ptr<const void> object;
    const void* used_as;
    Left* next;
  };
  class Owner;

  static HazardRecord* take();
  static HazardRecord* user_of(const void* object);
  static void full_fence() noexcept;
  [[nodiscard]] static bool fence_for_all() noexcept;
  [[nodiscard]] bool uses(const void* object) const;
  void leave(std::unique_ptr<Left> left) noexcept;
  void retire_left() noexcept;

  static thread_local constinit HazardRecord* of_thread;
  static const bool fences_for_all;
  static std::atomic<HazardRecord*> first;

  std::array<std::atomic<const void*>, entries_at_once> entries_{};
  std::size_t used_ = 0;                     // the owner's
  std::atomic<Left*> left_to_it_ = nullptr;  // objects that were taken away while the owner used them
  std::atomic<bool> is_owned_ = true;
  HazardRecord* next_ = nullptr;
};

template <class T>
class HazardPointer {
 public:
  HazardPointer() = default;
  explicit HazardPointer(std::shared_ptr<T> object) { set(std::move(object)); }
  ~HazardPointer() { retire(take_alone()); }
  HazardPointer(const HazardPointer&) = delete;
  HazardPointer& operator=(const HazardPointer&) = delete;

  // Any thread. The object before is destroyed by this call, or by the thread that is the last to use it.
  void set(std::shared_ptr<T> next) { retire(replace(std::move(next))); }
  // The same in two steps: the caller gives retire() the object before, which other threads may still use.
  [[nodiscard]] std::shared_ptr<T> replace(std::shared_ptr<T> next) {
    const std::lock_guard lock(mutex_);
    current_.store(next.get(), std::memory_order_release);
    next.swap(owner_);
    return next;
  }
  static void retire(std::shared_ptr<T> object) noexcept {
    if (object == nullptr) return;
    const void* const used_as = object.get();
    HazardRecord::retire(std::move(object), used_as);
  }
  // The object, which is not current any more. REQUIRES: no other thread calls or uses anything.
  std::shared_ptr<T> take_alone() {
    current_.store(nullptr, std::memory_order_release);
    return std::move(owner_);
  }
  // Any thread.
  [[nodiscard]] std::shared_ptr<T> share() const {
    const std::lock_guard lock(mutex_);
    return owner_;
  }

  // The object, without a copy. REQUIRES: no thread replaces it as long as the caller uses it.
  [[nodiscard]] T* unchanged() const { return current_.load(std::memory_order_acquire); }

  // What was current when this was made; as long as it lives, the object does. On the stack of one thread.
  // Its end may destroy objects, also of other pointers: no lock may be held that their destructors take.
  class Use {
   public:
    explicit Use(const HazardPointer& pointer) {
      HazardRecord* const record = HazardRecord::own();
      if (record == nullptr || !record->has_entry()) {
        shared_ = pointer.share();
        object_ = shared_.get();
        return;
      }
      record_ = record;
      std::atomic<const void*>& entry = record->push();
      T* seen = pointer.current_.load(std::memory_order_acquire);
      do {
        object_ = seen;
        entry.store(object_, std::memory_order_release);
        HazardRecord::fence();
        seen = pointer.current_.load(std::memory_order_acquire);
      } while (seen != object_);
    }
    ~Use() {
      if (record_ != nullptr) record_->pop();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    [[nodiscard]] T* get() const { return object_; }  // null: there was none
    T& operator*() const { return *object_; }
    T* operator->() const { return object_; }

   private:
    T* object_ = nullptr;
    HazardRecord* record_ = nullptr;  // null: the thread had no entry
    std::shared_ptr<T> shared_;       // then
  };

 private:
  std::atomic<T*> current_ = nullptr;
  mutable std::mutex mutex_;
  std::shared_ptr<T> owner_;  // protected by mutex_
};

}  // namespace dlaunch::internal
