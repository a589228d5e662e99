// Shared memory in C.

#include <map>
#include <mutex>
#include <utility>

#include "dlaunch/shared_memory.h"
#include "runtime/api/c_api.h"

using namespace dlaunch::internal::c;
using dlaunch::DistError;
using dlaunch::SharedMemory;

namespace {

// What the program has not freed yet.
struct Allocations {
  std::mutex mutex;
  std::map<void*, SharedMemory> all;  // by begin; protected by mutex

  static Allocations& get() {
    static Allocations& one = *new Allocations;
    return one;
  }
};

}  // namespace

int dlaunch_allocate_shared(size_t bytes, const dlaunch_group* group, void** data, int* is_shared) {
  return guarded([&] {
    (void)required(data, "the pointer to the result");
    const SharedMemory memory = dlaunch::allocate_shared(bytes, group_of(group));
    if (memory.size() > 0) {
      Allocations& allocations = Allocations::get();
      const std::lock_guard lock(allocations.mutex);
      allocations.all.emplace(memory.data(), memory);
    }
    *data = memory.data();
    if (is_shared != nullptr) *is_shared = memory.is_shared() ? 1 : 0;
  });
}

int dlaunch_free_shared(void* data) {
  return guarded([&] {
    if (data == nullptr) return;
    Allocations& allocations = Allocations::get();
    SharedMemory last;  // ends after the lock
    const std::lock_guard lock(allocations.mutex);
    const auto found = allocations.all.find(data);
    if (found == allocations.all.end())
      throw DistError("dlaunch_allocate_shared has not returned this address, or it is freed already");
    last = std::move(found->second);
    allocations.all.erase(found);
  });
}
