#include "runtime/base/hazard_pointer.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace dlaunch::internal {

namespace {

bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

// Before the process has threads: with them the kernel takes 10 ms for it.
bool can_fence_for_all() noexcept {
#if defined(__SANITIZE_THREAD__)
  return false;  // it does not see such a fence
#else
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
         membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
#endif
}

thread_local constinit bool has_ended = false;

}  // namespace

thread_local constinit HazardRecord* HazardRecord::of_thread = nullptr;
const bool HazardRecord::fences_for_all = can_fence_for_all();
constinit std::atomic<HazardRecord*> HazardRecord::first = nullptr;

// Gives the record back at the end of its thread.
class HazardRecord::Owner {
 public:
  explicit Owner(HazardRecord& record) : record_(record) { of_thread = &record; }
  ~Owner() {
    of_thread = nullptr;
    has_ended = true;
    record_.is_owned_.store(false, std::memory_order_release);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

 private:
  HazardRecord& record_;
};

HazardRecord* HazardRecord::take() {
  if (has_ended) return nullptr;
  HazardRecord* record = first.load(std::memory_order_acquire);
  while (record != nullptr && record->is_owned_.exchange(true, std::memory_order_acquire))
    record = record->next_;
  if (record == nullptr) {
    record = new HazardRecord;
    record->next_ = first.load(std::memory_order_relaxed);
    while (!first.compare_exchange_weak(record->next_, record, std::memory_order_release)) {
    }
  }
  static thread_local const Owner owner(*record);
  return record;
}

// A locked instruction, which ThreadSanitizer understands, too.
void HazardRecord::full_fence() noexcept {
  static std::atomic<int> word = 0;
  word.fetch_add(1, std::memory_order_seq_cst);
}

// False: the kernel refuses now what it has done before (a filter of system calls was installed).
bool HazardRecord::fence_for_all() noexcept {
  if (fences_for_all) return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  full_fence();
  return true;
}

bool HazardRecord::uses(const void* object) const {
  return std::ranges::any_of(entries_, [object](const std::atomic<const void*>& entry) {
    return entry.load(std::memory_order_acquire) == object;
  });
}

HazardRecord* HazardRecord::user_of(const void* object) {
  HazardRecord* record = first.load(std::memory_order_acquire);
  while (record != nullptr && !record->uses(object)) record = record->next_;
  return record;
}

void HazardRecord::retire(std::shared_ptr<const void> object, const void* used_as) noexcept {
  if (!fence_for_all()) {
    // For ever: a thread may use it. NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): as below
    (void)new std::shared_ptr<const void>(std::move(object));
    return;
  }
  // Without memory the process ends: the object can neither be destroyed nor be kept.
  if (HazardRecord* const user = user_of(used_as))
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
    user->leave(std::unique_ptr<Left>(new Left{std::move(object), used_as, nullptr}));
}

// Either the owner sees the object when it is done, or this thread sees that it is done.
void HazardRecord::leave(std::unique_ptr<Left> left) noexcept {
  const void* const used_as = left->used_as;
  Left* const one = left.release();
  one->next = left_to_it_.load(std::memory_order_relaxed);
  while (!left_to_it_.compare_exchange_weak(one->next, one, std::memory_order_release)) {
  }
  if (fence_for_all() && !uses(used_as)) retire_left();
}

void HazardRecord::retire_left() noexcept {
  Left* one = left_to_it_.exchange(nullptr, std::memory_order_acquire);
  while (one != nullptr) {
    const std::unique_ptr<Left> left(one);
    one = left->next;
    retire(std::move(left->object), left->used_as);
  }
}

}  // namespace dlaunch::internal
