#include "runtime/backends/nccl/nccl_rendezvous.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"

namespace dlaunch::internal {
namespace {

using std::chrono::milliseconds;

class MemoryStore final : public BackendStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [&] { return values_.contains(key); }))
      throw DistStoreError("no key " + key);
    return values_[key];
  }
  void wait(std::span<const std::string> keys, Deadline deadline) override {
    for (const std::string& key : keys) (void)get(key, deadline);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// What each rank got; the last `absent` ones do not come.
std::vector<std::string> share(const std::vector<std::string>& devices, int absent, bool may_share_devices,
                               milliseconds timeout) {
  MemoryStore store;
  const Deadline deadline = deadline_after(timeout);
  std::vector<std::string> results(devices.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank + static_cast<std::size_t>(absent) < devices.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        results[rank] = share_unique_id(
            store,
            {static_cast<int>(rank), static_cast<int>(devices.size()), devices[rank], may_share_devices},
            deadline, [&] { return std::string("made by ") + std::to_string(rank) + std::string("\0x", 2); });
      } catch (const DistError& e) {
        results[rank] = e.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return results;
}

TEST(NcclRendezvous, AllRanksGetTheBytesOfRankZero) {
  const std::string id("made by 0\0x", 11);
  EXPECT_EQ(share({"a", "b", "c"}, 0, false, std::chrono::seconds(20)),
            (std::vector<std::string>{id, id, id}));
}

TEST(NcclRendezvous, NamesTheRanksThatDoNotCome) {
  const std::string late = "ranks 1, 2 did not come to the NCCL communicator before the deadline";
  EXPECT_EQ(share({"a", "b", "c"}, 2, false, milliseconds(50)), (std::vector<std::string>{late, "", ""}));
}

TEST(NcclRendezvous, TwoRanksOnOneDeviceAreNamedOnAllRanks) {
  const std::string twins =
      "ranks 0 and 2 use one GPU (host and PCI address: a), and NCCL needs one for each rank: give each its "
      "own "
      "(device_id, cudaSetDevice, or LOCAL_RANK)";
  EXPECT_EQ(share({"a", "b", "a"}, 0, false, std::chrono::seconds(20)),
            (std::vector<std::string>{twins, twins, twins}));
  const std::string id("made by 0\0x", 11);
  EXPECT_EQ(share({"a", "a"}, 0, true, std::chrono::seconds(20)), (std::vector<std::string>{id, id}));
}

}  // namespace
}  // namespace dlaunch::internal
