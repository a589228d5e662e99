#include "dlaunch/threads.h"

#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/errors.h"
#include "runtime/group/world.h"
#include "store/client/hash_store.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

void run_ranks_as_threads(int size, const std::function<void(int rank)>& body) {
  if (size < 1) throw DistError("run_ranks_as_threads: there must be a rank at least");
  if (!body) throw DistError("run_ranks_as_threads: there is no function to run");
  const auto store = std::make_shared<HashStore>();
  // The error of the rank that failed first; the others' errors only report that it gave up.
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const ThreadWorld mine({rank, size, store, "threads", [&] {
                                const std::lock_guard lock(mutex);
                                if (first)
                                  throw DistNetworkError("another rank gave up: " + message_of(first));
                              }});
      try {
        body(rank);
      } catch (...) {
        const std::exception_ptr error = std::current_exception();
        {
          const std::lock_guard lock(mutex);
          if (!first) first = error;
        }
        world().abort_all(message_of(error));
      }
      if (world().is_initialized()) world().destroy_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace v1
}  // namespace dlaunch
